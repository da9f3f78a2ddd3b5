"""The vocabulary of the house: names that were replaced stay out, and docstrings begin with their subject."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("assertions", "faults", "harness", "runtime", "scenarios")

MODULES = frozenset(
    """answers armings asked beat bill blocks brief bus case complaints conclude crowd curve cut desk door edge
    foresight gates guard hand holdings house knobs laws leap leapt lineage lookout net orphan outlook pulse
    roster sense settle sick slide stranger strangers surroundings switch tag_line tally tender unowned wire
    witness words""".split()
)
"""Names of modules and packages that were replaced by a word of the field."""

KEPT = {"runtime": frozenset({"guard"})}
"""Names that were replaced in one part of the product and stay in another: `runtime/guard` guards the engine."""

CLASSES = frozenset(
    """Answers Asked Blocks Brief Case Crowd Curve Desk Door Finding Foreseen Gate Hand Heard House KeyLine KeyedModel
    Knobs Law Leapt Life Line Lines Manners Marks Outcomes Outlook PagedModel Prospect Rationed Refused Roster Script
    Senses Standing Surroundings TagLine Turned Vocabulary Whole Wire Witness Words""".split()
)
"""Names of classes that were replaced."""

OPENINGS = ("Of ", "The same", "What is ", "What ", "Whether ")
"""Beginnings of docstrings that have no subject."""


def sources() -> Iterator[Path]:
    for folder in PRODUCT:
        yield from sorted((ROOT / folder).rglob("*.py"))


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Texts that stand alone: docstrings of modules, classes, functions and fields, with their line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value.strip()


def found_in(name: str, source: str) -> list[str]:
    """Every breach in one source file, as "name:line: what"."""
    tree = ast.parse(source)
    path = Path(name)
    replaced = MODULES - KEPT.get(path.parts[0], frozenset())
    breaches = [f"{name}: module {part}" for part in {path.stem, *path.parent.parts[1:]} & replaced]
    breaches += [
        f"{name}:{node.lineno}: class {node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name in CLASSES
    ]
    return breaches + [
        f"{name}:{line}: a docstring begins with {text.split()[0]!r}"
        for line, text in docstrings(tree)
        if text.startswith(OPENINGS)
    ]


def test_replaced_names_and_riddles_stay_out():
    breaches = [each for path in sources() for each in found_in(str(path.relative_to(ROOT)), path.read_text())]
    assert not breaches, "\n".join(breaches)


@pytest.mark.parametrize(
    ("name", "source", "breach"),
    [
        ("assertions/brief.py", "", "module brief"),
        ("harness/sense/proc.py", "", "module sense"),
        ("harness/guard.py", "", "module guard"),
        ("harness/load/a.py", "class Wire: ...", "class Wire"),
        ("harness/load/a.py", '"""What came back."""', "begins with 'What'"),
        ("harness/load/a.py", 'x = 1\n"""Of a run."""', "begins with 'Of'"),
        ("harness/load/a.py", 'def f():\n    """The same, faster."""', "begins with 'The'"),
    ],
)
def test_a_planted_word_is_found(name: str, source: str, breach: str):
    assert any(breach in each for each in found_in(name, source))
