"""Self-agreement: a target without a reference is compared with its own answers from the baseline.

We do not have the weights of a foreign target, so its own early answers to fixed greedy prompts are the reference. A
prompt whose early answers already differ has no reference and is left out. A later answer that differs is not yet
corruption, because batching alone flips a token now and then. It is benign where the target also disagreed with itself
before the trial, and corruption when answers differ far more often than they did then (Fisher's exact test, 1 %).
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

from assertions import stats
from assertions.context import JudgeContext
from assertions.rows import Canary

PROMPTS_MAX = 8


@dataclass(frozen=True)
class Agreement:
    """Canary requests by the result of their comparison, and how often the baseline repeated a prompt (`repeats`)."""

    equal: tuple[str, ...]
    parted: tuple[str, ...]
    references: frozenset[str]  # early answers, which are the reference or show that there is none
    unsteady: frozenset[str]  # later answers to prompts that the target answered in several ways before the trial
    repeats: int
    disagreed: int  # of the repeats

    @property
    def broken(self) -> bool:
        """True when later answers differ significantly more often than answers of the baseline did."""
        later = len(self.equal) + len(self.parted)
        p = stats.fisher_more(len(self.parted), later, self.disagreed, self.repeats)
        return bool(self.parted) and p <= stats.ALPHA

    @property
    def usual(self) -> bool:
        """True when the target disagreed with itself before the trial too, as batches of different shapes round."""
        return self.disagreed > 0 and not self.broken


def agreement(context: JudgeContext) -> Agreement:
    """Compare canaries that have no reference with the answers that the target gave before the trial."""
    requests = context.history.requests
    early = context.intervals("warmup", "baseline")
    known: dict[str, list[str]] = defaultdict(list)
    later: list[Canary] = []
    references = set()
    for row in context.history.canaries:
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
    unsteady = frozenset(row.request for row in later if row.prompt_sha in known and row.prompt_sha not in agreed)
    repeats = sum(len(answers) - 1 for answers in known.values())
    disagreed = sum(len(answers) - max(Counter(answers).values()) for answers in known.values())
    return Agreement(equal, parted, frozenset(references), unsteady, repeats, disagreed)


def prompts_known(every_s: float, baseline_s: float) -> int:
    """The number of fixed prompts that are sent at least twice before the trial. At 0 self-agreement can't be judged.

    Only a prompt that was answered twice shows whether the target agrees with itself.
    """
    return min(PROMPTS_MAX, int(baseline_s / every_s + 1e-9) // 2)
