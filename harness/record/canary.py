"""Compares a canary's reply with its reference: tokens, and log probabilities where both sides have them.

    equal     same tokens and same log probabilities
    drift     benign: |dlogprob| below ROUNDING_BELOW, or tokens differ where the reference's margin was below it
    corrupt   |dlogprob| above CORRUPT_ABOVE, or tokens differ where the margin was above it
    unknown   a difference between the two bounds, or an unknown margin at the first different token

Greedy tokens alone are a weak check: one damaged KV slot changes a greedy token within 32 steps in only 9 of 40 runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

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
    worse = max(state, parting_state(margin), key=_ORDER.index)
    return Comparison(worse, min(common, parted_at + 1), parted_at, margin)


def parting_state(margin: float | None) -> str:
    """The state of a different token where the best two candidates had this margin."""
    return "unknown" if margin is None else max("drift", _size(margin), key=_ORDER.index)


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
    """Known answers by prompt digest. `name` is their origin, "exact" or "self", and the key "reference" of a file."""

    name: Annotated[str, Field(alias="reference")]
    answers: dict[str, Answer]


_ANSWER, _REFERENCE = TypeAdapter(Answer), TypeAdapter(Reference)


def read_reference(path: Path) -> Reference:
    """Read a file that `write_reference` wrote. Raises ValueError that names the file and its problems."""
    try:
        return _REFERENCE.validate_json(path.read_bytes())
    except ValidationError as error:
        raise ValueError(f"{path} is not a canary reference: {' '.join(str(error).split())}") from error


def answer_of(entry: dict[str, Any]) -> Answer:
    """An Answer from a `canary_reply` line. Raises ValueError."""
    return _ANSWER.validate_python(entry)


def write_reference(path: Path, reference: Reference) -> None:
    """Write a reference as JSON: `{"reference": name, "answers": {prompt_sha: {"tokens", "logprobs", ...}}}`."""
    path.write_bytes(_REFERENCE.dump_json(reference, indent=1, by_alias=True))
