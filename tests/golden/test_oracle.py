"""The oracle says what `transformers` says, for every kind of model, prompt length and sampling option."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from assertions.corruption import ROUNDING_BELOW
from harness.oracle.__main__ import main
from harness.oracle.choice import Sampling, allowed
from harness.oracle.model import Model, log_probabilities
from harness.oracle.reply import Ask, replies
from tests.golden import files
from tests.golden.kinds import EMBEDDED, OUTPUT


@pytest.mark.parametrize("name", files.NAMES)
def test_its_replies_are_the_golden_ones(name: str, tmp_path: Path) -> None:
    golden = files.read(name)
    model = Model(golden.directory(tmp_path))
    said = replies(model, [Ask(golden.prompt(reply), OUTPUT) for reply in golden.replies])
    for reply, ours in zip(golden.replies, said, strict=True):
        assert ours.tokens == reply.tokens, reply.length
        assert ours.logprobs == pytest.approx(reply.logprobs, abs=ROUNDING_BELOW), reply.length
        whole = [*golden.prompt(reply), *reply.tokens[:-1]]
        line = log_probabilities(model.logits([(model.context(len(whole)), whole)]))[0]
        assert np.argsort(-line)[:5].tolist() == [token for token, _ in reply.top]
        assert np.sort(-line)[:5] == pytest.approx([-value for _, value in reply.top], abs=ROUNDING_BELOW)


def test_the_tokens_that_it_allows_and_their_shares_are_the_golden_ones(tmp_path: Path) -> None:
    model = Model(files.directory(EMBEDDED, {}, tmp_path))
    for row in files.read_sampling():
        prompt = files.prompt(EMBEDDED, row["length"], row["salt"])
        line = model.logits([(model.context(len(prompt)), prompt)])[0]
        shares, tokens = allowed(line, Sampling(row["temperature"], row["top_p"]))
        found = {int(token): share for token, share in zip(tokens, shares / shares.sum(), strict=True) if share > 1e-8}
        for token in found.keys() | {int(token) for token in row["shares"]}:
            assert found.get(token, 0.0) == pytest.approx(row["shares"].get(str(token), 0.0), abs=ROUNDING_BELOW)


def test_it_answers_json_with_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = files.read(EMBEDDED)
    known = next(reply for reply in golden.replies if reply.length == 17)
    asked = [{"id": "a", "text": bytes(golden.prompt(known)[1:]).decode(), "max_tokens": OUTPUT}]
    monkeypatch.setattr("sys.argv", ["oracle", str(golden.directory(tmp_path))])
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(asked)))
    assert main() == 0
    (said,) = json.loads(capsys.readouterr().out)
    assert (said["id"], said["tokens"]) == ("a", known.tokens)
    assert said["names"] == list(said["text"]) == [chr(token) for token in known.tokens]
    assert min(said["margins"]) > ROUNDING_BELOW


def test_a_stop_token_is_the_last_of_its_reply(tmp_path: Path) -> None:
    model = Model(files.directory(EMBEDDED, {}, tmp_path))
    asks = [Ask([256, 65], 6), Ask([256, 66], 6)]
    whole = replies(model, asks)
    stop = whole[0].tokens[2]
    stopped, other = replies(model, asks, {stop})
    assert stopped.tokens == whole[0].tokens[: whole[0].tokens.index(stop) + 1]
    assert len(stopped.logprobs) == len(stopped.margins) == len(stopped.tokens)
    assert stop in other.tokens[-1:] or other.tokens == whole[1].tokens
