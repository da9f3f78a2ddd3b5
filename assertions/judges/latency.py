"""Judge latency: figures of ttft and e2e in each phase. They have no limit; a check sets one.

The judge only observes, so that two runs can be compared by their verdict.json without a check. Fault windows are
included, and a timeout counts with the time that it took.
"""

from assertions.context import MEASURED, Judge, JudgeContext
from assertions.formatting import seconds
from assertions.latency import latencies
from assertions.plan_view import PlanView
from assertions.verdict import Evidence, Judged, Level, State
from assertions.windows import inside

NAME = "latency"
METRICS = ("ttft", "e2e")
QUANTILES = (50, 95, 99)


def decide(context: JudgeContext) -> Judged:
    figures: dict[str, float] = {}
    by_phase: dict[str, Evidence] = {}
    for phase in MEASURED:
        intervals = context.intervals(phase)
        mask = context.measured & inside(context.history.requests.intended_ns, intervals)
        texts = []
        for metric in METRICS:
            values = latencies(context, metric, mask)
            if not values.n:
                continue
            found = {q: values.quantile(q / 100) for q in QUANTILES}
            figures |= {f"{phase}.{metric}_p{q}_s": value for q, value in found.items()}
            figures[f"{phase}.{metric}_n"] = values.n
            each = ", ".join(f"p{q} {seconds(value)}" for q, value in found.items())
            texts.append(f"{metric} {each} over {values.n}")
        if texts:
            by_phase[phase] = Evidence(int(intervals[0][0]), None, f"{phase}: {'; '.join(texts)}")
    if not by_phase:
        because = "no request to measure"
        return Judged(NAME, State.UNKNOWN, because, because=context.cut_short or because, to_decide="more traffic")
    phase = "trial" if "trial" in by_phase else next(iter(by_phase))
    halves = [
        f"{metric} {seconds(figures[f'{phase}.{metric}_p50_s'])}/{seconds(figures[f'{phase}.{metric}_p99_s'])}"
        for metric in METRICS
        if f"{phase}.{metric}_n" in figures
    ]
    return Judged(
        NAME,
        State.PASS,
        f"{by_phase[phase].text}, in this run",
        observed=f"p50/p99: {', '.join(halves)}",
        evidence=tuple(by_phase.values()),
        figures=figures,
    )


def judge(plan: PlanView) -> Judge:
    return Judge(NAME, decide, level=Level.OBSERVE, timing=True)
