"""Writes all report files of a run from one model, each atomically."""

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
    """Write report.html, summary.md and junit.xml. A reader sees the old or the new file, never a part."""
    written = []
    for name, render in FILES.items():
        path = run_dir / name
        fresh = path.with_name(f".{name}.new")
        # Sanitised text is valid UTF-8; should it not be, an escape is better than no report.
        fresh.write_text(render(report), encoding="utf-8", errors="backslashreplace")
        fresh.replace(path)
        written.append(path)
    return tuple(written)
