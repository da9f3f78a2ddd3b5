"""Detect the process and the metrics page of a running server on this machine.

Values from the scenario or the command line take precedence. Detection starts nothing and sends one GET of /metrics.
It contacts no other machine, because the user has not permitted that yet.
"""

from dataclasses import replace

from harness.telemetry.listeners import listener, name_of, port_of
from harness.telemetry.metrics import GAUGES, PRESETS, ScrapeFailed, fetch, read_metrics
from scenarios.read import Document
from scenarios.rules_target import is_remote
from scenarios.schema import Scenario

PAGE_S = 2.0


def discover(document: Document) -> tuple[Document, tuple[str, ...]]:
    """Return the scenario with the detected values filled in, and one line of text about each of them."""
    target = document.scenario.target
    if target.kind != "url" or target.url is None or is_remote(target):
        return document, ()
    found: dict[str, object] = {}
    notes = []
    if target.pid is None and (pid := listener(port_of(target.url))) is not None:
        found["pid"] = pid
        notes.append(f"{target.url}: process {pid} ({name_of(pid)}) found; its memory and descriptors are sampled")
    if target.metrics is None:
        page = target.url.rstrip("/").removesuffix("/v1") + "/metrics"
        if (preset := _preset(page)) is not None:
            found |= {"metrics": page, "metrics_preset": preset}
            notes.append(f"{page}: metrics of {preset} found; running, waiting and KV use are read from it")
    if not found:
        return document, ()
    plain = document.scenario.model_dump(mode="json", by_alias=True)
    plain["target"] |= found
    return replace(document, scenario=Scenario.from_plain(plain)), tuple(notes)


def _preset(page: str) -> str | None:
    """The preset that matches most names on the page. None when the page is absent or holds no known gauge."""
    try:
        text = fetch(page, PAGE_S)
        known = {preset: read_metrics(text, preset) for preset in PRESETS}
    except ScrapeFailed:
        return None
    matches = {preset: len(names) for preset, names in known.items() if any(name in names for name in GAUGES)}
    return max(matches, key=lambda preset: matches[preset], default=None)
