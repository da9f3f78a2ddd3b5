"""`seatrial faults`: print the catalogue of fault points and their actions."""

import json
import textwrap

from faults import Catalogue, Point
from faults.points import Action, UnknownName
from harness.exits import Exit, Refusal
from runtime.points import catalogue

COLUMNS = 80


def show(name: str | None, layer: str | None, *, as_json: bool) -> int:
    known = catalogue()
    points = _chosen(known, name, layer)
    if as_json:
        print(json.dumps([_plain(point) for point in points], indent=1))
    elif name is not None:
        _in_full(points[0])
    else:
        _table(points, [] if layer else list(known.planned_names()))
    return Exit.PASS


def _chosen(known: Catalogue, name: str | None, layer: str | None) -> list[Point]:
    if name is not None:
        try:
            return [known.get(name)]
        except UnknownName as problem:
            raise Refusal(str(problem)) from None
    points = [known.get(each) for each in known.names()]
    layers = sorted({point.layer for point in points})
    if layer is not None and layer not in layers:
        raise Refusal(f"no layer {layer!r}; choose one of {', '.join(layers)}")
    return [point for point in points if layer in (None, point.layer)]


def _table(points: list[Point], planned: list[str]) -> None:
    width = max(len(point.name) for point in points)
    action_width = max(len(_words(action)) for point in points for action in point.actions)
    for point in points:
        for number, action in enumerate(point.actions):
            name = point.name if number == 0 else ""
            print(f"{name:<{width}}  {_words(action):<{action_width}}  {action.symptom or '-'}".rstrip())
    print()
    print("Columns: point, action, symptom. The symptom is the sign, seen outside the")
    print("injector, that the fault had an effect. Without it a fault proves nothing.")
    print('In a scenario:  fault = [{ id = "x", do = "POINT: ACTION" }]')
    print("More about one point:  seatrial faults POINT")
    if planned:
        print(textwrap.fill(f"Planned, not available yet: {', '.join(planned)}", COLUMNS, break_on_hyphens=False))


def _in_full(point: Point) -> None:
    print(f"{point.name}   layer {point.layer}")
    print(textwrap.fill(point.breaks, COLUMNS - 2, initial_indent="  ", subsequent_indent="  "))
    print(f"  scope: {', '.join(point.attributes) or 'none'}")
    for action in point.actions:
        print(f"\n  {point.name}: {_words(action)}")
        print(f"    symptom    {action.symptom or 'none; only the count of fires proves an effect'}")
        print(f"    severity   {action.severity}")
        print(f"    place      {', '.join(action.placements)}")
        if action.words:
            print(f"    words      {', '.join(action.words)}")


def _words(action: Action) -> str:
    argument = action.argument
    shown = f"[{argument[:-1]}]" if argument.endswith("?") else f"<{argument}>" if argument else ""
    return f"{action.name} {shown}".strip()


def _plain(point: Point) -> dict[str, object]:
    names = ("kind", "argument", "words", "severity", "placements", "symptom")
    actions = [{"action": action.name} | {name: getattr(action, name) for name in names} for action in point.actions]
    scope = list(point.attributes)
    return {"point": point.name, "layer": point.layer, "breaks": point.breaks, "scope": scope, "actions": actions}
