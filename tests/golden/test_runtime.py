"""The runtime, from its files to its replies, says what `transformers` says: for every kind of model, every length of
prompt at an edge, and every sampling option. None of these tests imports `transformers`."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from assertions.corruption import ROUNDING_BELOW
from harness.oracle import choice
from harness.oracle.model import Model
from harness.oracle.reply import Ask, replies
from runtime.core.work import Sampling
from runtime.models.config import DecoderConfig, Rope, read_config
from tests.golden import files
from tests.golden.files import Golden, Reply
from tests.golden.kinds import BLOCK, CHUNK, EMBEDDED, OUTPUT
from tests.golden.served import Served, served

SERVED: dict[str, dict[str, object]] = {
    "as served": {"token_budget": 512, "seqs_max": 32},
    "chunks": {"token_budget": CHUNK, "seqs_max": 5},
    "exact": {"token_budget": CHUNK, "seqs_max": 5, "exact": True},
}


@pytest.mark.parametrize("way", SERVED)
@pytest.mark.parametrize("name", files.NAMES)
def test_its_greedy_replies_are_the_golden_ones(name: str, way: str, tmp_path: Path) -> None:
    golden = files.read(name)
    blocks = sum(-(-(length + OUTPUT) // BLOCK) for length in files.lengths(name))
    with served(model=str(golden.directory(tmp_path)), kv_blocks=blocks, block_tokens=BLOCK, **SERVED[way]) as runtime:
        _hold(runtime, golden, golden.replies)
        if way == "as served":  # every whole block of a prompt now comes from the prefix cache
            _hold(runtime, golden, golden.replies)
            prefix = runtime.runtime.measure_memory().prefix
            assert (
                prefix is not None and prefix.hits >= sum(length // BLOCK * BLOCK for length in files.lengths(name)) / 2
            )


@pytest.mark.parametrize(("preemption", "mark"), [("recompute", "kv.preempt"), ("swap", "swap.in")])
def test_replies_of_preempted_requests_are_the_golden_ones(preemption: str, mark: str, tmp_path: Path) -> None:
    golden = files.read(EMBEDDED)
    few = [reply for reply in golden.replies if BLOCK - 1 <= reply.length <= 2 * BLOCK + 1]
    knobs = {"kv_blocks": 7, "block_tokens": BLOCK, "seqs_max": 5, "expected_output": 0.0, "preemption": preemption}
    with served(model=str(golden.directory(tmp_path)), **knobs) as runtime:
        _hold(runtime, golden, few)
        assert runtime.runtime.env.counters.total[mark] > 0


def _hold(runtime: Served, golden: Golden, known: Sequence[Reply]) -> None:
    """Ask all prompts at once and hold tokens and log probabilities to the golden ones."""
    said = runtime.replies([(golden.prompt(reply), OUTPUT, Sampling(logprobs=5)) for reply in known])
    for reply, ours in zip(known, said, strict=True):
        assert [one.token for one in ours] == reply.tokens, reply.length
        assert [one.logprob for one in ours] == pytest.approx(reply.logprobs, abs=ROUNDING_BELOW), reply.length
        for (token, logprob), (best, best_logprob) in zip(ours[-1].top, reply.top, strict=True):
            assert (token, logprob) == (best, pytest.approx(best_logprob, abs=ROUNDING_BELOW))


def test_draws_follow_the_shares_of_transformers(tmp_path: Path) -> None:
    """Each drawn token is one that temperature and top_p allow, and the frequencies over many seeds are the shares."""
    draws = 300
    with served(model=str(files.directory(EMBEDDED, {}, tmp_path))) as runtime:
        for row in files.read_sampling():
            prompt = files.prompt(EMBEDDED, row["length"], row["salt"])
            samplings = [Sampling(row["temperature"], row["top_p"], seed) for seed in range(draws)]
            said = runtime.replies([(prompt, 1, sampling) for sampling in samplings])
            seen = Counter(str(one.token) for (one,) in said)
            assert seen.keys() <= row["shares"].keys(), "a token was drawn that is not allowed"
            assert _p_of(seen, row["shares"], draws) > 1e-3, (row["temperature"], row["top_p"])


def test_every_draw_is_the_one_that_seed_and_position_name(tmp_path: Path) -> None:
    directory = files.directory(EMBEDDED, {}, tmp_path)
    options = [(0.0, 1.0), (0.3, 1.0), (1.0, 1.0), (2.0, 1.0), (1.0, 0.9), (1.0, 0.3), (0.7, 0.01)]
    asks = [
        Ask(files.prompt(EMBEDDED, 15 + seed % 3, seed), OUTPUT, choice.Sampling(temperature, top_p, seed - 2))
        for temperature, top_p in options
        for seed in range(6)
    ]
    known = replies(Model(directory), asks)
    # Behind a draw that rounding can change, another token may follow: so far each reply is compared.
    clear = [next((n for n, margin in enumerate(one.margins) if margin < ROUNDING_BELOW), OUTPUT) for one in known]
    assert sum(clear) > 0.8 * OUTPUT * len(asks)
    with served(model=str(directory)) as runtime:
        drawn = [(one.prompt, OUTPUT, Sampling(*vars(one.sampling).values(), logprobs=0)) for one in asks]
        for reply, upto, ours in zip(known, clear, runtime.replies(drawn), strict=True):
            assert [one.token for one in ours[:upto]] == reply.tokens[:upto]
            assert [one.logprob for one in ours[:upto]] == pytest.approx(reply.logprobs[:upto], abs=ROUNDING_BELOW)


def test_the_kinds_vary_every_key_of_the_config_that_is_not_refused_or_a_size(tmp_path: Path) -> None:
    configs = [read_config(files.read(name).directory(tmp_path)) for name in files.NAMES]
    varied = {key for key in DecoderConfig.model_fields if len({repr(getattr(one, key)) for one in configs}) > 1}
    varied |= {key for key in Rope.model_fields if len({getattr(one.rope, key) for one in configs}) > 1}
    sizes = {"vocabulary", "heads", "context_max", "original_context"}
    refused = {
        *("hidden_act", "quantization_config", "mlp_bias", "partial_rotary_factor", "mrope_section"),
        *("num_experts", "num_local_experts", "n_routed_experts", "use_sliding_window"),
    }
    once = {"attention_bias", "low_freq_factor", "high_freq_factor"}  # no effect, and the factors of Llama 3.1
    assert {*DecoderConfig.model_fields, *Rope.model_fields} - varied <= sizes | refused | once
    assert {one.rope.kind for one in configs} == {"default", "linear", "llama3"}


def _p_of(seen: Counter[str], shares: dict[str, float], draws: int) -> float:
    """The p value of Pearson's chi-squared test. Tokens that are expected less than five times are one class."""
    rare = [token for token, share in shares.items() if share * draws < 5]
    classes = [[token] for token in shares if token not in rare] + ([rare] if rare else [])
    expected = np.array([sum(shares[token] for token in each) for each in classes])
    observed = [sum(seen[token] for token in each) for each in classes]
    if len(classes) < 2:
        return 1.0
    return float(stats.chisquare(observed, expected / expected.sum() * draws).pvalue)
