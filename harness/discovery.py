"""A server on this machine that somebody else started: which process is it, and has it a metrics page?

What was written down or typed stands. Nothing is started, nothing is sent but one GET of /metrics, and no other machine
is looked at: there nobody has said yet that we may.
"""

from dataclasses import replace

from harness.telemetry.listeners import listener, name_of, port_of
from harness.telemetry.metrics import GAUGES, PRESETS, ScrapeFailed, fetch, read_metrics
from scenarios.read import Document
from scenarios.rules_target import is_remote
from scenarios.schema import Scenario

PAGE_S = 2.0


def discover(document: Document) -> tuple[Document, tuple[str, ...]]:
    """The scenario with what was found, and a line about each thing that was."""
    target = document.scenario.target
    if target.kind != "url" or target.url is None or is_remote(target):
        return document, ()
    found: dict[str, object] = {}
    said = []
    if target.pid is None and (pid := listener(port_of(target.url))) is not None:
        found["pid"] = pid
        said.append(f"{target.url} is served by process {pid} ({name_of(pid)}): its memory and descriptors are watched")
    if target.metrics is None:
        page = target.url.rstrip("/").removesuffix("/v1") + "/metrics"
        if (preset := _preset(page)) is not None:
            found |= {"metrics": page, "metrics_preset": preset}
            said.append(f"{page} speaks as {preset} does: running, waiting and KV use are read from it")
    if not found:
        return document, ()
    plain = document.scenario.model_dump(mode="json", by_alias=True)
    plain["target"] |= found
    return replace(document, scenario=Scenario.from_plain(plain)), tuple(said)


def _preset(page: str) -> str | None:
    """The preset that finds most on the page; None when no gauge of any is there, or there is no page."""
    try:
        text = fetch(page, PAGE_S)
        known = {preset: read_metrics(text, preset) for preset in PRESETS}
    except ScrapeFailed:
        return None
    useful = {preset: len(names) for preset, names in known.items() if any(name in names for name in GAUGES)}
    return max(useful, key=lambda preset: useful[preset], default=None)
