"""The canaries' reference, as a process and as a class."""

import io
import json
from pathlib import Path

import pytest

from runtime.models.default import DIGEST, default_model
from runtime.models.reference import Reference, main


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return default_model(tmp_path_factory.mktemp("cache"))


def test_it_answers_json_with_json(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [{"id": "a", "text": "hello", "max_tokens": 5}, {"id": "b", "tokens": [256, 104, 101], "max_tokens": 3}]
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"prompts": asked})))
    assert main(["--model", str(directory)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["weights_digest"] == DIGEST
    first, second = said["replies"]
    assert (first["id"], len(first["tokens"]), len(second["tokens"])) == ("a", 5, 3)
    assert first["text"].encode() == bytes(first["tokens"])
    assert all(logprob < 0 for logprob in first["logprobs"])
    assert all(margin >= 0 for margin in first["margins"])


def test_order_and_neighbours_change_nothing(directory: Path) -> None:
    reference, fresh = Reference(directory), Reference(directory)
    long, short = [256, *range(40, 120)], [256, 65]
    answers = [reference.greedy(prompt, 6) for prompt in (long, short, long)]
    assert answers[0] == answers[2]
    assert answers[1] == fresh.greedy(short, 6)


def test_a_stop_token_is_the_last(directory: Path) -> None:
    reference = Reference(directory)
    whole = reference.greedy([256, 65], 6)
    stopped = reference.greedy([256, 65], 6, frozenset([whole.tokens[2]]))
    assert stopped.tokens == whole.tokens[: whole.tokens.index(whole.tokens[2]) + 1]
    assert len(stopped.margins) == len(stopped.tokens)


@pytest.mark.parametrize(("prompt", "more"), [([], 4), ([65] * 2048, 1)])
def test_what_does_not_fit_the_context_is_refused(directory: Path, prompt: list[int], more: int) -> None:
    with pytest.raises(ValueError, match="fit into the context"):
        Reference(directory).greedy(prompt, more)
