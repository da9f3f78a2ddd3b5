"""Compares replies of a virtual run with those that the hash model must give: canaries, and samples of other requests.

The expected reply (the twin) costs some microseconds a token. So of the requests that end during a fault the first 512
are compared, and of the others one in four up to 512.
"""

import json

from harness.load.outcome import Outcome
from harness.plan.canary import CanaryConfig
from harness.record.canary import Answer, compare
from harness.virtual.client import Client
from harness.virtual.rows import Rows
from runtime.device.hash_model import expected, text_of

DURING_FAULTS_MAX = 512
OTHERS_ONE_IN = 4
OTHERS_MAX = 512
REFERENCE = "keyed"
"""The name of the hash model in column `reference` of table canary."""


class AnswerCheck:
    """Compares replies with the hash model of this seed, and writes rows of table canary.

    With `self_agreement` canaries are recorded without a comparison, and a judge compares them with each other.
    """

    def __init__(self, rows: Rows, seed: int, canary: CanaryConfig, *, self_agreement: bool) -> None:
        self._rows = rows
        self._seed = seed
        self._self_agreement = self_agreement
        self._canary = canary
        self._known: dict[tuple[int, ...], Answer] = {}
        """Expected replies to canaries, by prompt."""
        self._during_faults = 0
        self._others = 0

    def check(self, client: Client, *, during_fault: bool) -> None:
        """Compare the reply of a request that has ended."""
        if client.outcome is not Outcome.OK:
            return
        if client.request.kind == "canary":
            self._check_canary(client)
        elif client.request.kind in ("load", "probe") and self._selected(during_fault):
            self._put(client, "twin", None, self._expected(client, client.request.output_tokens), None)

    def _check_canary(self, client: Client) -> None:
        tokens = json.dumps(list(text_of(client.tokens)), separators=(",", ":"))
        if self._self_agreement:
            self._rows.put("canary", (client.request.id, None, tokens, None, None, None, "unknown"))
            return
        known = self._known.get(client.request.prompt)
        if known is None:
            known = self._known[client.request.prompt] = self._expected(client, self._canary.output_tokens)
        self._put(client, REFERENCE, tokens, known, tuple(client.logprobs) or None)

    def _put(
        self,
        client: Client,
        reference: str,
        tokens: str | None,
        known: Answer,
        logprobs: tuple[float | None, ...] | None,
    ) -> None:
        found = compare(known, Answer(tuple(text_of(client.tokens)), logprobs))
        row = (client.request.id, reference, tokens, found.compared, found.parted_at, found.margin, found.state)
        self._rows.put("canary", row)

    def _expected(self, client: Client, n: int) -> Answer:
        answer = expected(client.request.prompt, n, self._seed, with_logprobs=True)
        return Answer(
            tuple(text_of([one.token for one in answer])),
            tuple(one.logprob for one in answer),
            tuple(one.top[0][1] - one.top[1][1] for one in answer),
        )

    def _selected(self, during_fault: bool) -> bool:
        if during_fault:
            self._during_faults += 1
            return self._during_faults <= DURING_FAULTS_MAX
        self._others += 1
        return self._others % OTHERS_ONE_IN == 0 and self._others <= OTHERS_ONE_IN * OTHERS_MAX
