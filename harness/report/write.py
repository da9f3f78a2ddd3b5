"""Writes the files of a run or a night, each atomically."""

from collections.abc import Mapping
from pathlib import Path

from harness.report import html, junit, markdown
from harness.report.model import Report


def write(report: Report, run_dir: Path) -> tuple[Path, ...]:
    """Write report.html, summary.md and junit.xml of a run, which render one model."""
    render = {"report.html": html.render, "summary.md": markdown.render, "junit.xml": junit.render}
    return write_files(run_dir, {name: of(report) for name, of in render.items()})


def write_files(folder: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Write texts by file name. A reader sees the old or the new file, never a part. Raises OSError."""
    paths = tuple(folder / name for name in texts)
    for path in paths:
        fresh = path.with_name(f".{path.name}.new")
        # Sanitised text is valid UTF-8; should it not be, an escape is better than no report.
        fresh.write_text(texts[path.name], encoding="utf-8", errors="backslashreplace")
        fresh.replace(path)
    return paths
