"""All the report files of a run, written from one model and each put in place whole."""

from collections.abc import Callable
from pathlib import Path

from harness.report import html, junit, markdown
from harness.report.model import Report

FILES: dict[str, Callable[[Report], str]] = {
    "report.html": html.render,
    "summary.md": markdown.render,
    "junit.xml": junit.render,
}


def write(report: Report, run_dir: Path) -> tuple[Path, ...]:
    """Write report.html, summary.md and junit.xml. A reader sees the old file or the new one, never half of one."""
    written = []
    for name, render in FILES.items():
        path = run_dir / name
        fresh = path.with_name(f".{name}.new")
        # What the sanitiser let through is valid UTF-8 by now; if it were not, a report with a mark beats none.
        fresh.write_text(render(report), encoding="utf-8", errors="backslashreplace")
        fresh.replace(path)
        written.append(path)
    return tuple(written)
