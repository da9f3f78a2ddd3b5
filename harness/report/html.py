"""report.html: one file that opens offline, loads nothing, and runs only its own two scripts.

The content security policy names each script and the style sheet by its digest. If text of a reply escaped its quoting,
the browser would still refuse to run it.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING

from harness.report import figures
from harness.report.judges import anchor
from harness.report.model import Report
from harness.report.outcomes import GOOD
from harness.report.sanitise import clean, script_json

if TYPE_CHECKING:
    from jinja2 import Template

SIGNIFICANT_DIGITS = 4


def render(report: Report) -> str:
    from markupsafe import Markup  # 0.1 s: only where a page is made

    library, script = _asset("vendor/uPlot.iife.min.js"), _asset("report.js")
    style = _asset("vendor/uPlot.min.css") + _asset("report.css")
    filters: dict[str, Callable[..., object]] = {
        "anchor": anchor,
        "at": figures.at,
        "at_ns": figures.at_ns,
        "by_load": lambda rows: [
            (load, list(group)) for load, group in groupby(rows, key=lambda row: (row.load, row.kind))
        ],
        "count": figures.count,
        "quantity": figures.quantity,
        "seconds": figures.seconds,
        "share": figures.share,
        "size": figures.size,
    }
    return page_template(_asset("report.html.j2"), filters).render(
        r=report,
        good=GOOD,
        missing=figures.MISSING,
        policy=policy((library, script), style),
        # Our own text, or made safe by script_json: no text of a reply is marked as markup.
        data=Markup(script_json(_drawn(report))),  # noqa: S704
        library=Markup(library),  # noqa: S704
        script=Markup(script),  # noqa: S704
        style=Markup(style),  # noqa: S704
    )


def page_template(source: str, filters: Mapping[str, Callable[..., object]]) -> "Template":
    """A Jinja template in which every value is escaped and cleaned, unless it is markup of our own."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def harmless(value: object) -> object:
        return value if isinstance(value, Markup) else clean(value)

    environment = Environment(autoescape=True, finalize=harmless, undefined=StrictUndefined)
    environment.filters |= filters
    return environment.from_string(source)


def _asset(name: str) -> str:
    return files("harness.report").joinpath(name).read_text(encoding="utf-8")


def policy(scripts: tuple[str, ...], style: str) -> str:
    """The content security policy that allows these scripts and this style sheet, by digest, and nothing else."""
    allowed = " ".join(_digest(script) for script in scripts) or "'none'"
    return f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _drawn(report: Report) -> dict[str, object]:
    """The data that report.js draws. Texts are cleaned here because a canvas is not part of the template."""
    timeline, armed = report.timeline, [fault for fault in report.faults if fault.arm_s is not None]
    faults = dict.fromkeys(fault.fault for fault in armed)
    drawn = {
        "end_s": timeline.end_s,
        "lanes": ["phase", *faults, *(["canary"] if timeline.canaries else [])],
        "phases": [
            {"name": each.name, "n": each.n, "start_s": each.start_s, "end_s": each.end_s} for each in timeline.phases
        ],
        "faults": [
            {"fault": each.fault, "arm_s": each.arm_s, "first_s": each.first_s, "heal_s": each.heal_s} for each in armed
        ],
        "fires_s": [each for each in timeline.fires if each[0] in faults],
        "canaries_s": timeline.canaries,
        "charts": [asdict(chart) for chart in timeline.charts if not chart.absent],
    }
    return {key: _plain(key, value) for key, value in drawn.items()}


def _plain(key: str, value: object) -> object:
    """The value as clean and short JSON: times, whose key ends in `_s`, to the millisecond; others to four digits."""
    match value:
        case dict():
            return {name: _plain(name, each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(key, each) for each in value]
        case float():
            return round(value, 3) if key.endswith("_s") else float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    return clean(value) if isinstance(value, str) else value
