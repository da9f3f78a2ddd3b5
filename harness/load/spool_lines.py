"""Spool lines of replies. Keys are the column names of the history's tables."""

from harness.load.exchange import Reply


def reply_line(request_id: str, reply: Reply) -> dict[str, object]:
    """The `reply` line of the spool."""
    stats = reply.stats
    tokens, tokens_from = stats.count_tokens()
    return {
        "e": "reply",
        "request": request_id,
        "head_ns": reply.head_ns,
        "first_ns": stats.first_ns,
        "last_ns": stats.last_ns,
        "end_ns": reply.end_ns,
        "cancel_ns": reply.cancel_ns,
        "outcome": reply.outcome.value,
        "http": reply.http,
        "finish": stats.finish,
        "error": reply.error,
        "retry_after_s": reply.retry_after_s,
        "prompt_tokens": stats.prompt_tokens,
        "output_tokens": tokens,
        "tokens_from": tokens_from,
        "chunks": stats.chunks,
        "gap_ns_sum": stats.gap_ns_sum if stats.chunks > 1 else None,
        "gap_ns_max": stats.gap_ns_max,
        "text_sha": reply.text_sha,
        "sample": reply.sample,
    }


def canary_line(request_id: str, reply: Reply) -> dict[str, object]:
    """The `canary_reply` line: tokens with logprobs and margins, or the text where the target sends no tokens."""
    log = reply.stats.log
    return {
        "e": "canary_reply",
        "request": request_id,
        "tokens": log.tokens or None,
        "text": reply.stats.sample,
        "logprobs": log.logprobs or None,
        "margins": log.margins or None,
    }
