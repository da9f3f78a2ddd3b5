"""Generates the JSON Schema of the scenario file for editors: `#:schema ./scenario.schema.json`.

    python -m scenarios.editor          writes scenario.schema.json beside this file; a test fails when it is stale

The schema has types, units, allowed values and descriptions. Rules between keys are checked by the reader only.
"""

import json
from pathlib import Path
from typing import Any, Final

from scenarios import units
from scenarios.schema import Scenario

FILE: Final = Path(__file__).with_name("scenario.schema.json")


def json_schema() -> dict[str, Any]:
    """The schema for TOML values: strings with a unit, no null, and defaults as a scenario writes them."""
    schema = _as_toml(Scenario.model_json_schema(by_alias=True, mode="validation"))
    assert isinstance(schema, dict)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "seatrial scenario, schema 1"}


def text() -> str:
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def _as_toml(node: Any) -> Any:
    if isinstance(node, list):
        return [_as_toml(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {key: _as_toml(value) for key, value in node.items() if key not in ("discriminator", "default")}
    for key in ("anyOf", "oneOf"):
        if key in kept:
            kept[key] = [branch for branch in kept[key] if branch != {"type": "null"}]  # TOML has no null
            if len(kept[key]) == 1:
                kept.update(kept.pop(key)[0])
    if "type" in node or "anyOf" in node or "oneOf" in node:
        kept |= _default(node.get("default"), kept)
    return kept


def _default(value: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """The default in the form of the scenario file; empty where the default is a whole table."""
    patterns = [part.get("pattern") for part in (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ()))]
    if value is None:
        return {}
    if isinstance(value, bool | str):
        return {"default": value}
    if units.DURATION_PATTERN in patterns:
        return {"default": units.show_seconds(value)}
    if units.SIZE_PATTERN in patterns:
        return {"default": units.show_bytes(value)}
    return {"default": value} if isinstance(value, int | float | list) else {}


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
