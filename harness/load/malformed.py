"""Malformed requests, each wrong in one way. A correct server answers each at once with a 4xx status.

They have the kind "malformed". A 200, a 500, a hang or a dead server is a finding.
"""

import json

_FORMS = ("not_json", "half_json", "no_input", "wrong_type", "negative_tokens", "huge_tokens", "not_utf8", "empty")


def malformed_body(plan_row: int, model: str, api: str) -> tuple[str, bytes]:
    """The (name of the form, body) for a plan row. Rows go through all forms in turn."""
    form = _FORMS[plan_row % len(_FORMS)]
    field = "messages" if api == "chat" else "prompt"
    good = {"model": model, field: [{"role": "user", "content": "hi"}] if api == "chat" else "hi", "max_tokens": 4}
    bodies: dict[str, bytes] = {
        "not_json": b"this is not JSON",
        "half_json": json.dumps(good).encode()[:-8],
        "no_input": json.dumps({key: value for key, value in good.items() if key != field}).encode(),
        "wrong_type": json.dumps({**good, field: 17}).encode(),
        "negative_tokens": json.dumps({**good, "max_tokens": -1}).encode(),
        # As a stream, so that closing the connection ends it on a server that accepts it.
        "huge_tokens": json.dumps({**good, "max_tokens": 10**12, "stream": True}).encode(),
        "not_utf8": b'{"model": "\xff\xfe"}',
        "empty": b"",
    }
    return form, bodies[form]
