"""The golden files are what the installed `transformers` says, in one pass over each reply."""

from pathlib import Path

import pytest
import torch

from assertions.corruption import ROUNDING_BELOW
from tests.golden import files
from tests.golden.kinds import EMBEDDED, KINDS


@pytest.mark.parametrize("name", files.NAMES)
def test_the_golden_replies_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    from tests.golden import peer

    golden = files.read(name)
    assert golden.shapes == ({} if name == EMBEDDED else peer.shapes_of(KINDS[name]))
    assert [reply.length for reply in golden.replies] == list(files.lengths(name))
    model = peer.open_model(golden.directory(tmp_path))
    for reply in golden.replies:
        count = len(reply.tokens)
        lines = peer.logits(model, [*golden.prompt(reply), *reply.tokens[:-1]], count)
        assert lines.argmax(1).tolist() == reply.tokens, reply.length
        lines = torch.log_softmax(lines.double(), 1)
        assert lines[range(count), reply.tokens].tolist() == pytest.approx(reply.logprobs, abs=ROUNDING_BELOW)
        assert lines[-1].topk(5).indices.tolist() == [token for token, _ in reply.top]


def test_the_golden_shares_are_those_of_transformers(tmp_path: Path) -> None:
    from tests.golden import peer

    model = peer.open_model(files.directory(EMBEDDED, {}, tmp_path))
    for row in files.read_sampling():
        line = peer.logits(model, files.prompt(EMBEDDED, row["length"], row["salt"]), 1)[0]
        shares = peer.warped(line, row["temperature"], row["top_p"])
        assert {str(token) for token in shares.nonzero()[:, 0].tolist() if shares[token] > 1e-8} >= row["shares"].keys()
        for token, share in row["shares"].items():
            assert float(shares[int(token)]) == pytest.approx(share, abs=ROUNDING_BELOW)
