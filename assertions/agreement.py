"""Canaries without a reference: does the target still say what it said in the baseline?

For a foreign target we have no weights, so its own early answers are the reference. A prompt whose early answers
already differ has none. An answer that parts later is a doubt and not yet a fault, because batching alone flips a token
now and then; it becomes corruption when answers part far more often than they did in the baseline (Fisher's exact
test, 1 %).
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

from assertions import stats
from assertions.case import Case
from assertions.rows import Canary


@dataclass(frozen=True)
class Agreement:
    """Requests by what became of them. `repeats` is how often the baseline had the chance to disagree and did not."""

    equal: tuple[str, ...]
    parted: tuple[str, ...]
    references: frozenset[str]  # early answers: they are the reference, or show that there is none
    repeats: int

    @property
    def broken(self) -> bool:
        """True when the parted ones are too many to be what the baseline's luck hid."""
        later = len(self.equal) + len(self.parted)
        return bool(self.parted) and stats.fisher_more(len(self.parted), later, 0, self.repeats) <= stats.ALPHA


def agreement(case: Case) -> Agreement:
    """Canaries without a reference, held against the answers that the target gave before the trial."""
    requests = case.history.requests
    early = case.spans("warmup", "baseline")
    known: dict[str, list[str]] = defaultdict(list)
    later: list[Canary] = []
    references = set()
    for row in case.history.canaries:
        if row.reference is not None:
            continue
        position = requests.row_of.get(row.request)
        if position is None or not requests.ok[position] or row.tokens is None or row.prompt_sha is None:
            continue
        if any(start <= requests.start_of(position) <= end for start, end in early):
            known[row.prompt_sha].append(row.tokens)
            references.add(row.request)
        else:
            later.append(row)
    agreed = {sha: answers[0] for sha, answers in known.items() if len(Counter(answers)) == 1}
    comparable = [(row.request, row.tokens == agreed[row.prompt_sha]) for row in later if row.prompt_sha in agreed]
    equal = tuple(request for request, same in comparable if same)
    parted = tuple(request for request, same in comparable if not same)
    repeats = sum(len(known[sha]) - 1 for sha in agreed)
    return Agreement(equal, parted, frozenset(references), repeats)
