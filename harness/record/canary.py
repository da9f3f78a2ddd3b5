"""Compares a canary's reply with its reference: tokens, and log probabilities where both sides have them.

    equal     same tokens and same log probabilities
    drift     benign: |dlogprob| below ROUNDING_BELOW, or tokens differ where the reference's margin was below it
    corrupt   |dlogprob| above CORRUPT_ABOVE, or tokens differ where the margin was above it
    unknown   a difference between the two bounds, or an unknown margin at the first different token

Greedy tokens alone are a weak check: one damaged KV slot changes a greedy token within 32 steps in only 9 of 40 runs.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assertions.corruption import CORRUPT_ABOVE, ROUNDING_BELOW

_ORDER = ("equal", "drift", "unknown", "corrupt")


@dataclass(frozen=True)
class Answer:
    """One greedy reply. `logprobs` and `margins` have one entry for each token, or are None.

    A target that sends no tokens has only a `text`; different texts can't be distinguished from benign drift.
    """

    tokens: tuple[str, ...] | None
    logprobs: tuple[float | None, ...] | None = None
    margins: tuple[float | None, ...] | None = None
    text: str | None = None


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison of `compared` tokens.

    `parted_at` is the index of the first different token, or None. `margin` is the reference's margin between its best
    two candidates there.
    """

    state: str
    compared: int
    parted_at: int | None = None
    margin: float | None = None


def compare(reference: Answer, reply: Answer) -> Comparison:
    """Compare tokens and log probabilities; the worse state counts. Replies of different lengths differ at the shorter
    one's end."""
    if reference.tokens is None or reply.tokens is None:
        alike_text = reference.text is not None and reference.text == reply.text
        return Comparison("equal", 1) if alike_text else Comparison("unknown", 0)
    common = min(len(reference.tokens), len(reply.tokens))
    parted_at = next((i for i in range(common) if reference.tokens[i] != reply.tokens[i]), None)
    if parted_at is None and len(reference.tokens) != len(reply.tokens):
        parted_at = common
    alike = common if parted_at is None else parted_at
    state = _size(_largest_difference(reference.logprobs, reply.logprobs, alike))
    if parted_at is None:
        return Comparison(state, common)
    margin = _at(reference.margins, parted_at)
    if margin is None:
        margin = _at(reply.margins, parted_at)  # the margin between the two candidates on the other side
    parting = "unknown" if margin is None else max("drift", _size(margin), key=_ORDER.index)
    return Comparison(max(state, parting, key=_ORDER.index), min(common, parted_at + 1), parted_at, margin)


def _size(difference: float | None) -> str:
    if not difference:  # nothing to compare, or exactly equal
        return "equal"
    if difference < ROUNDING_BELOW:
        return "drift"
    return "corrupt" if difference > CORRUPT_ABOVE else "unknown"


def _largest_difference(
    mine: Sequence[float | None] | None, theirs: Sequence[float | None] | None, upto: int
) -> float | None:
    pairs = zip((mine or ())[:upto], (theirs or ())[:upto], strict=False)
    differences = [abs(left - right) for left, right in pairs if left is not None and right is not None]
    return max(differences, default=None)


def _at(values: Sequence[float | None] | None, index: int) -> float | None:
    return values[index] if values is not None and index < len(values) else None


@dataclass(frozen=True)
class Reference:
    """Known answers by prompt digest. `name` is their origin, "exact" or "self"."""

    name: str
    answers: dict[str, Answer]


def read_reference(path: Path) -> Reference:
    """Read a file `{"reference": name, "answers": {prompt_sha: {"tokens", "logprobs", "margins", "text"}}}`.

    Raises ValueError that names the file and its first problem.
    """
    try:
        value = json.loads(path.read_text())
        answers = {sha: answer_of(entry) for sha, entry in value["answers"].items()}
        return Reference(str(value["reference"]), answers)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a canary reference: {type(error).__name__}: {error}") from error


def answer_of(entry: dict[str, Any]) -> Answer:
    """An Answer from its JSON (a `canary_reply` line, or an entry of a reference file)."""
    tokens, text = entry.get("tokens"), entry.get("text")
    if tokens is not None and not isinstance(tokens, list):
        raise ValueError(f"tokens is {type(tokens).__name__}; it must be a list or null")
    if text is not None and not isinstance(text, str):
        raise ValueError(f"text is {type(text).__name__}; it must be a string or null")
    known = None if tokens is None else tuple(str(token) for token in tokens)
    return Answer(known, _floats(entry.get("logprobs")), _floats(entry.get("margins")), text)


def write_reference(path: Path, reference: Reference) -> None:
    """Write a file that `read_reference` reads."""
    answers = {
        sha: {
            "tokens": _listed(a.tokens),
            "logprobs": _listed(a.logprobs),
            "margins": _listed(a.margins),
            "text": a.text,
        }
        for sha, a in sorted(reference.answers.items())
    }
    path.write_text(json.dumps({"reference": reference.name, "answers": answers}, indent=1) + "\n")


def _floats(values: object) -> tuple[float | None, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list):
        raise ValueError(f"logprobs and margins must be lists, not {type(values).__name__}")
    return tuple(None if value is None else float(value) for value in values)


def _listed(values: Sequence[object] | None) -> list[object] | None:
    return None if values is None else list(values)
