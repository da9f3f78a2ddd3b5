"""report.html: one file that opens offline, loads nothing, and runs only its own two scripts.

The content security policy names each script and the style sheet by its digest. If text of a reply escaped its quoting,
the browser would still refuse to run it.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING

from harness.report import figures
from harness.report.judges import anchor
from harness.report.model import Report
from harness.report.outcomes import GOOD
from harness.report.sanitise import clean, script_json
from harness.report.timeline import Timeline

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
        data=Markup(script_json(_drawn(report.timeline))),  # noqa: S704
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


def _drawn(timeline: Timeline) -> dict[str, object]:
    """The data that report.js draws. Texts are cleaned here because a canvas is not part of the template."""
    faults = list(dict.fromkeys(band.fault for band in timeline.faults))
    return {
        "end": _short(timeline.end_s),
        "lanes": ["phase", *(clean(fault) for fault in faults), *(["canary"] if timeline.canaries else [])],
        "phases": [
            {
                "label": clean(f"{band.name} {band.n}" if band.n else band.name),
                "start": _short(band.start_s),
                "end": _short(band.end_s),
            }
            for band in timeline.phases
        ],
        "faults": [
            {
                "fault": clean(band.fault),
                "arm": _short(band.arm_s),
                "first": None if band.first_s is None else _short(band.first_s),
                "heal": None if band.heal_s is None else _short(band.heal_s),
            }
            for band in timeline.faults
        ],
        "fires": [[clean(fault), [_short(t_s) for t_s in times]] for fault, times in timeline.fires if fault in faults],
        "canaries": [[_short(dot.t_s), clean(dot.state)] for dot in timeline.canaries],
        "charts": [
            {
                "key": chart.key,
                "unit": chart.unit,
                "log": chart.log,
                "x": [_short(t_s) for t_s in chart.x_s],
                "lines": [
                    {
                        "key": line.key,
                        "label": line.label,
                        "values": [None if value is None else _significant(value) for value in line.values],
                    }
                    for line in chart.lines
                ],
            }
            for chart in timeline.charts
            if not chart.absent
        ],
    }


def _short(t_s: float) -> float:
    return round(t_s, 3)


def _significant(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
