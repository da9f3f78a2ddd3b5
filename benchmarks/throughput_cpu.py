"""New tokens a second on the CPU: our engine and device against `transformers`, same weights, same requests.

    python -m benchmarks.throughput_cpu [--threads 2] [--rounds 3]

    equal      32 prompts of 64 tokens, 128 new tokens each, all queued before the first step
    ragged     96 requests of lognormal lengths that arrive as a Poisson process, at 1.5 times the rate at which the
               engine served the equal batch, so that requests wait from the first seconds on

    engine         runtime.engine over CpuDevice: scheduler, contract, tags, sampler and sink, but no HTTP
    device         equal only: launches handed to CpuDevice by a script, what model and device alone can do
    static         transformers.generate on full batches of 32 in order of arrival. Equal is its best case; ragged it
                   pads to the longest prompt and runs to the longest output of each batch, since a static batch can
                   do no better

A figure is the median over the rounds of new tokens that were asked for, over the time from the start (the first
arrival) to the last token. Contenders take turns (A B C A B C ...), since a noisy machine drifts by 30 % in a minute;
the share is that of the static batch in the same round. Tokens per second of CPU time, context switches and minor page
faults show what neighbours disturb less: spinning and sleeping threads, unsettled malloc, fresh buffers.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.throughput_contenders import ROWS, Contender, Contenders, static_tokens
from benchmarks.throughput_work import OUTPUTS, PROMPTS, Asked, equal, new_tokens, ragged
from runtime.device.malloc import keep_freed_memory
from runtime.device.threads import compute_alone

OFFERED_SHARE = 1.5
"""Of what the engine served of the equal batch: more than anybody can serve of the ragged work."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=ROWS, help="of the equal batch")
    parser.add_argument("--prompt", type=int, default=64, help="tokens of each prompt of the equal batch")
    parser.add_argument("--output", type=int, default=128, help="new tokens of each request of the equal batch")
    parser.add_argument("--ragged", type=int, default=3 * ROWS, help="requests that arrive one by one")
    parser.add_argument("--skip", action="append", default=[], choices=["device", "static"], help="a contender")
    given = parser.parse_args(arguments)
    keep_freed_memory()
    compute_alone()
    contenders = Contenders(given.threads, max(given.prompt + given.output, PROMPTS.highest + OUTPUTS.highest))
    runs: dict[str, Contender] = {
        "engine": contenders.engine,
        "device": contenders.device,
        "static": contenders.static,
    }
    runs = {name: run for name, run in runs.items() if name not in given.skip}
    work = equal(given.requests, given.prompt, given.output)
    print(f"{given.threads} threads, {given.rounds} rounds")
    print(f"equal: {given.requests} x ({given.prompt} + {given.output}) tokens, all queued before the first step")
    measured = measure(runs, work, given.rounds)
    tell(measured)
    engine = measured["engine"]
    if isinstance(engine, Exception):
        raise engine
    served = statistics.median(figure.tokens_per_s for figure in engine)
    work = ragged(given.ragged, OFFERED_SHARE * served)
    last_s = work[-1].at_s
    print(f"ragged: {len(work)} requests; prompts {PROMPTS}; outputs {OUTPUTS}")
    print(
        f"  offered: {len(work) / last_s:.1f} requests/s, {new_tokens(work) / last_s:.0f} new tokens/s for "
        f"{last_s:.1f} s; served: all {new_tokens(work)} new tokens; static computes {static_tokens(work)} for them"
    )
    tell(measure({name: run for name, run in runs.items() if name in ("engine", "static")}, work, given.rounds))
    return 0


@dataclass(frozen=True)
class Figures:
    """One run of one contender."""

    tokens_per_s: float
    tokens_per_cpu_s: float
    switches: float
    """Voluntary context switches per 1,000 new tokens: how often a thread went to sleep."""
    faults: float
    """Minor page faults per 1,000 new tokens."""


def measure(runs: dict[str, Contender], work: Sequence[Asked], rounds: int) -> dict[str, list[Figures] | Exception]:
    """Warm each up once, then let them take turns. Who can't run here has its error instead of figures."""
    found: dict[str, list[Figures] | Exception] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            seen = found[name]
            if isinstance(seen, Exception):
                continue
            try:
                figures = _run(run, work)
            except Exception as error:
                found[name] = error
                continue
            if turn:
                seen.append(figures)
    return found


def tell(measured: dict[str, list[Figures] | Exception]) -> None:
    """A line a contender."""
    static = measured.get("static")
    for name, seen in measured.items():
        if isinstance(seen, Exception):
            print(f"  {name:11} did not run: {type(seen).__name__}: {str(seen).partition(chr(10))[0][:90]}")
            continue
        rates = [figure.tokens_per_s for figure in seen]
        share = ""
        if name != "static" and isinstance(static, list):
            shares = [rate / other.tokens_per_s for rate, other in zip(rates, static, strict=True)]
            share = f"{statistics.median(shares):.2f} of static"
        per_cpu, switches, faults = (
            statistics.median(column)
            for column in zip(*((each.tokens_per_cpu_s, each.switches, each.faults) for each in seen), strict=True)
        )
        print(
            f"  {name:11} {statistics.median(rates):7.0f} tokens/s ({min(rates):.0f}-{max(rates):.0f}) {share:15} "
            f"{per_cpu:7.0f} per CPU s {switches:8.1f} switches {faults:7.1f} faults per 1,000"
        )


def _run(run: Contender, work: Sequence[Asked]) -> Figures:
    before, began_s = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    tokens = run(work)
    took_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_SELF)
    assert tokens == new_tokens(work), f"{tokens} new tokens were made of {new_tokens(work)}"
    return Figures(
        tokens / took_s,
        tokens / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime),
        1000 * (after.ru_nvcsw - before.ru_nvcsw) / tokens,
        1000 * (after.ru_minflt - before.ru_minflt) / tokens,
    )


if __name__ == "__main__":
    raise SystemExit(main())
