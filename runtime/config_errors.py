"""Turns pydantic's validation errors into messages with place, value, rule and remedy, for all problems at once."""

from collections.abc import Iterable

from pydantic import ValidationError

from faults.spec import did_you_mean

_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "a table",
    "mapping_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "finite_number": "a finite number",
    "missing": "a value",
}
_BOUNDS = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}


def problems(error: ValidationError, known: Iterable[str] = ()) -> list[str]:
    """One message for each broken rule, in the order of the fields. `known` are the keys of the outermost table."""
    found = []
    for each in error.errors(include_url=False):
        kind, place, context = each["type"], ".".join(map(str, each["loc"])), each.get("ctx", {})
        bounds = [f"{_BOUNDS[name]} {context[name]:g}" for name in _BOUNDS if name in context]
        if kind == "extra_forbidden":
            found.append(f'unknown key "{place}"; {did_you_mean(place, known)}')
        elif kind == "value_error":
            found.append(str(context["error"]))
        elif kind == "missing":
            found.append(f"{place} is missing; give it")
        elif bounds:
            found.append(f"{place} is {each['input']!r}; give {bounds[0]}")
        elif "expected" in context:
            found.append(f"{place} is {each['input']!r}; give {context['expected']}")
        else:
            found.append(f"{place} is {each['input']!r}; give {_WANTED.get(kind, each['msg'])}")
    return found
