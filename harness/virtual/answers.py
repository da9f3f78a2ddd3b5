"""Compares answers of a virtual run with the keyed function that gives the right ones: canaries and bystanders.

A bystander's twin costs some microseconds a token, so those near a fault are all held against theirs up to a bound,
and of the others one in so many.
"""

import json

from harness.load.outcome import Outcome
from harness.plan.canary import CanaryConfig
from harness.record.canary import Answer, compare
from harness.virtual.client import Client
from harness.virtual.rows import Rows
from runtime.device.hash_model import expected, text_of

BESIDE_FAULTS_MAX = 512
ONE_IN = 4
OTHERS_MAX = 512
NAME = "keyed"


class AnswerCheck:
    """Compares replies with the keyed function of this seed, and writes rows of table canary."""

    def __init__(self, rows: Rows, seed: int, canary: CanaryConfig, *, by_itself: bool) -> None:
        self._rows = rows
        self._seed = seed
        self._by_itself = by_itself
        self._known: dict[tuple[int, ...], Answer] = {}
        self._beside = 0
        self._others = 0
        self._seen = 0
        self._canary = canary

    def hold(self, client: Client, *, beside_fault: bool) -> None:
        """Compare one reply that has ended."""
        if client.outcome is not Outcome.OK:
            return
        if client.asked.kind == "canary":
            self._canary_reply(client)
        elif client.asked.kind in ("load", "probe") and self._chosen(beside_fault):
            self._twin(client)

    def _canary_reply(self, client: Client) -> None:
        tokens = json.dumps(list(text_of(client.tokens)), separators=(",", ":"))
        if self._by_itself:
            self._rows.put("canary", (client.asked.id, None, tokens, None, None, None, "unknown"))
            return
        known = self._known.get(client.asked.prompt)
        if known is None:
            known = self._known[client.asked.prompt] = self._answer(client, self._canary.output_tokens)
        reply = Answer(tuple(text_of(client.tokens)), tuple(client.logprobs) or None)
        seen = compare(known, reply)
        self._rows.put(
            "canary", (client.asked.id, NAME, tokens, seen.compared, seen.parted_at, seen.margin, seen.state)
        )

    def _twin(self, client: Client) -> None:
        twin = self._answer(client, client.asked.output_tokens)
        seen = compare(twin, Answer(tuple(text_of(client.tokens))))
        self._rows.put(
            "canary", (client.asked.id, "twin", None, seen.compared, seen.parted_at, seen.margin, seen.state)
        )

    def _answer(self, client: Client, n: int) -> Answer:
        answer = expected(client.asked.prompt, n, self._seed, with_logprobs=True)
        return Answer(
            tuple(text_of([one.token for one in answer])),
            tuple(one.logprob for one in answer),
            tuple(one.top[0][1] - one.top[1][1] for one in answer),
        )

    def _chosen(self, beside_fault: bool) -> bool:
        if beside_fault:
            self._beside += 1
            return self._beside <= BESIDE_FAULTS_MAX
        self._seen += 1
        if self._seen % ONE_IN or self._others >= OTHERS_MAX:
            return False
        self._others += 1
        return True
