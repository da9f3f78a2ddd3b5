import json
import re
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from harness.report import sanitise
from tests.harness.report.story import HOSTILE

# Any code point, surrogates included, seasoned with the words that mean harm.
ANY_TEXT = st.text(st.characters(), max_size=60) | st.lists(
    st.sampled_from([*HOSTILE, "<", "&", "]]>", "::", "##[", "%0A", "%", "\x1b]0;x\x07", "\r", "\n", "`", "|"]),
    max_size=6,
).map("".join)


@given(ANY_TEXT)
def test_clean_text_holds_nothing_that_acts_and_can_be_encoded(text: str) -> None:
    clean = sanitise.clean(text)
    clean.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\ud800-\udfff\ufffe\uffff]", clean)


@given(ANY_TEXT)
def test_clean_is_stable(text: str) -> None:
    assert sanitise.clean(sanitise.clean(text)) == sanitise.clean(text)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert sanitise.clean(text) == text


@given(ANY_TEXT)
def test_xml_parses_and_gives_the_clean_text_back(text: str) -> None:
    element = ET.Element("case", message=sanitise.clean(text))
    element.text = sanitise.clean(text)
    parsed = ET.fromstring(ET.tostring(element, encoding="unicode"))
    assert (parsed.text or "") == sanitise.clean(text)
    assert parsed.get("message") == sanitise.clean(text)


@given(ANY_TEXT)
def test_json_in_a_script_cannot_end_the_script_and_says_the_same(text: str) -> None:
    written = sanitise.script_json({"text": text})
    assert written.isascii()
    assert not set("<>&") & set(written)
    assert json.loads(written) == {"text": text}


@given(ANY_TEXT)
def test_no_line_on_a_terminal_is_a_workflow_command(text: str) -> None:
    for line in sanitise.terminal(text).split("\n"):
        assert not re.match(r"\s*::\s*[A-Za-z]", line)
        assert "##[" not in line
        assert "\x1b" not in line


@given(ANY_TEXT)
def test_an_annotation_is_one_line_that_reads_back_and_its_property_cannot_end_it(text: str) -> None:
    assert "\n" not in sanitise.annotation(text)
    assert "\r" not in sanitise.annotation(text)
    decoded = sanitise.annotation(text).replace("%0A", "\n").replace("%25", "%")
    assert decoded == sanitise.clean(text), "GitHub shows what was said"
    prop = sanitise.annotation_property(text)
    assert not set(":,\n") & set(prop)


@given(ANY_TEXT)
def test_markdown_stays_in_its_table_cell(text: str) -> None:
    cell = sanitise.markdown(text)
    assert "\n" not in cell
    assert "<" not in cell
    assert not re.search(r"(?<!\\)(\\\\)*\|", cell)


def test_hostile_replies_stay_readable() -> None:
    assert sanitise.clean("\x1b[31mred\x00") == r"\x1b[31mred\x00"
    assert sanitise.clean("\udc80") == r"\udc80"
    assert sanitise.terminal("::error::x") == ": :error: :x"


def test_a_cut_line_says_how_much_was_cut() -> None:
    assert sanitise.one_line("x" * 500, 10) == "xxxxxxxxxx… (+490 characters)"
