"""night.html and night.md, made from one model, so that their numbers are equal (a test compares them)."""

import os
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from assertions.verdict import State
from harness.nightly import junit
from harness.nightly.compare import MEDIAN_NIGHTS, TREND_NIGHTS, Figure, Night
from harness.nightly.trial import Trial
from harness.report import figures
from harness.report.html import page_template, policy
from harness.report.markdown import MARKS, ROWS_MAX, bounded, folded, table
from harness.report.sanitise import markdown as safe
from harness.report.write import write_files

TREND_WIDTH, TREND_HEIGHT = 110, 22
SAID = {
    "wall_s": "took",
    "value": "",
    "share": "change",
    "per_hour": "growth per hour",
    "excess": "too many",
    "recovery_max_s": "the slowest",
    "rss_per_1000_completions": "RSS per 1,000 completions",
    "rss_per_1000_cancels": "RSS per 1,000 cancels",
}
"""Display names of the judges' figures."""
FIGURES_SHOWN = 60
"""Maximum number of figures in night.md; night.html shows all of them."""


def write(night: Night, folder: Path) -> tuple[Path, ...]:
    """Write night.html, night.md and junit.xml, each atomically. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"night.html": html(night, folder), "night.md": markdown(night), "junit.xml": junit.render(night)}
    return write_files(folder, texts)


def html(night: Night, folder: Path) -> str:
    """night.html, one file that opens offline. `folder` is its place, for relative links to the trials' reports."""
    from markupsafe import Markup

    def link(trial: Trial) -> str | None:
        if trial.run_dir is None:
            return None
        return quote(os.path.relpath(Path(trial.run_dir) / "report.html", folder.absolute()))

    style = files("harness.report").joinpath("report.css").read_text(encoding="utf-8")
    filters: dict[str, Callable[..., object]] = {
        "commits": commits,
        "label": label,
        "link": link,
        "quantity": figures.quantity,
        "ratio": ratio,
        "seconds": figures.seconds,
        "short": figures.commit,
        "trend": lambda figure: Markup(trend(figure)),  # noqa: S704  nothing but numbers
    }
    template = files("harness.nightly").joinpath("night.html.j2").read_text(encoding="utf-8")
    return page_template(template, filters).render(
        n=night,
        lead=lead(night),
        median_nights=MEDIAN_NIGHTS,
        trend_nights=TREND_NIGHTS,
        missing=figures.MISSING,
        policy=policy((), style),
        style=Markup(style),  # noqa: S704  our own
    )


def markdown(night: Night) -> str:
    """night.md, at most 200 kB, for the page of a CI job."""
    said = " · ".join(f"{number} {word}" for word, number in night.counts) or "no scenario was run"
    parts = [
        f"### {MARKS[night.state]} {night.state}: night of {safe(night.night)}",
        f"**{said}**, exit {night.exit}",
        *(f"**{safe(why)}**" for why in night.because),
        safe(lead(night)),
        f"host class {safe(night.host_class)} · commit {safe(commits(night))}"
        f" · {night.nights_before} past nights · {figures.seconds(night.wall_s)}",
    ]
    if night.skipped:
        parts.append(f"skipped, not virtual: {safe(', '.join(night.skipped))}")
    if night.gone:
        parts.append(f"ran last night, no longer in the folder: {safe(', '.join(night.gone))}")
    if night.changes:
        rows = [(c.scenario, c.judge or "as a whole", _mark(c.before), _mark(c.now), c.text) for c in night.changes]
        parts += ["#### Changed since last night", _table(("scenario", "judge", "last", "tonight", "says"), rows)]
    if night.moved:
        parts += ["#### Figures that moved", _figures(night.moved)]
    scenarios = [
        (
            row.scenario,
            _mark(row.state),
            row.streak or figures.MISSING,
            _mark(row.last.state if row.last else None),
            row.text,
        )
        for row in night.rows
    ]
    controls = [
        (f.control.name, f.control.planted, "detected" if f.seen else "not detected", f.text) for f in night.controls
    ]
    parts += [
        "#### Scenarios",
        _table(("scenario", "tonight", "nights in a row", "last", "why"), scenarios),
        "#### Positive controls",
        _table(("control", "planted", "result", "what the judge said"), controls),
    ]
    if night.figures:
        parts.append(folded(f"{len(night.figures)} figures", _figures(night.figures)))
    return bounded(parts, "night.html")


def lead(night: Night) -> str:
    """The night in one sentence."""
    detected = sum(found.seen for found in night.controls)
    changed = sum(change.judge is None for change in night.changes)
    scenarios = "scenario has" if len(night.rows) == 1 else "scenarios have"
    compared = (
        f"{changed} of {len(night.rows)} {scenarios} another state than last night, "
        f"{len(night.moved)} of {len(night.figures)} figures moved"
        if night.nights_before
        else "this is the first night of this host class, so there is no comparison"
    )
    return f"{compared}; {detected} of {len(night.controls)} planted faults were detected."


def label(metric: str) -> str:
    """The display name of a metric of trials.sqlite: `latency: trial.ttft_p99_s` is `TTFT p99 in the trial`."""
    judge, _, figure = metric.rpartition(": ")
    if judge == "latency":
        phase, _, what = figure.partition(".")
        name, quantile, *_ = what.split("_")
        return f"{name.upper()} {quantile} in the {phase}"
    if not judge or figure in SAID:
        return f"{judge}: {SAID.get(figure, figure)}".removeprefix(": ").removesuffix(": ")
    return metric


def ratio(value: float | None) -> str:
    """The ratio tonight / median with three digits, such as `1.21`."""
    return figures.MISSING if value is None else f"{value:.3g}"


def commits(night: Night) -> str:
    """The commits of tonight's trials."""
    return ", ".join(night.commits) or "not recorded"


def trend(figure: Figure) -> str:
    """An SVG with the past nights as a line and tonight as a dot; empty for a first night."""
    values = (*figure.past, figure.tonight)
    if len(values) < 2:
        return ""
    low, span = min(values), (max(values) - min(values)) or 1.0
    step = (TREND_WIDTH - 6) / (len(values) - 1)
    points = [(3 + n * step, 3 + (TREND_HEIGHT - 6) * (1 - (value - low) / span)) for n, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[-1]
    return (
        f'<svg width="{TREND_WIDTH}" height="{TREND_HEIGHT}" role="img" aria-label="{len(values)} nights">'
        f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="1.2" opacity="0.6"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="currentColor"/></svg>'
    )


def _figures(rows: Sequence[Figure]) -> str:
    shown = [
        (
            row.scenario,
            label(row.metric),
            figures.quantity(row.tonight, row.unit),
            figures.quantity(row.last, row.unit),
            figures.quantity(row.median, row.unit),
            row.nights,
            ratio(row.ratio),
        )
        for row in rows
    ]
    return _table(("scenario", "figure", "tonight", "last", "median", "of nights", "ratio"), shown, FIGURES_SHOWN)


def _mark(state: State | None) -> str:
    return figures.MISSING if state is None else f"{MARKS[state]} {str(state).replace('_', ' ')}"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]], rows_max: int = ROWS_MAX) -> str:
    return table(head, rows, rows_max, "night.html")
