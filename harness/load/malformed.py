"""Requests that no server may serve, each wrong in one way. The right answer is 400 or its kin, at once.

They go out as kind "malformed". A 200, a 500, a hang or a dead server is the finding.
"""

import json

_FORMS = ("not_json", "half_json", "no_input", "wrong_type", "negative_tokens", "huge_tokens", "not_utf8", "empty")


def malformed_body(plan_row: int, model: str, api: str) -> tuple[str, bytes]:
    """(name of what is wrong, body) for a plan row; the rows go round through all forms."""
    form = _FORMS[plan_row % len(_FORMS)]
    field = "messages" if api == "chat" else "prompt"
    good = {"model": model, field: [{"role": "user", "content": "hi"}] if api == "chat" else "hi", "max_tokens": 4}
    bodies: dict[str, bytes] = {
        "not_json": b"this is not JSON",
        "half_json": json.dumps(good).encode()[:-8],
        "no_input": json.dumps({key: value for key, value in good.items() if key != field}).encode(),
        "wrong_type": json.dumps({**good, field: 17}).encode(),
        "negative_tokens": json.dumps({**good, "max_tokens": -1}).encode(),
        # As a stream: a server that takes it serves nobody else until we hang up, and would go on for ever otherwise.
        "huge_tokens": json.dumps({**good, "max_tokens": 10**12, "stream": True}).encode(),
        "not_utf8": b'{"model": "\xff\xfe"}',
        "empty": b"",
    }
    return form, bodies[form]
