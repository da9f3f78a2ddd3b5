"""The outputs agree because they render one model, and none of them does what a reply wants."""

import hashlib
import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assertions.verdict import Evidence, Judged, Level, State
from harness.report import annotations, figures, html, junit, markdown, model, terminal
from harness.report.model import Report
from harness.report.write import write
from tests.harness.report.story import HOSTILE, Story
from tests.harness.report.synthetic import write as write_run
from tests.harness.report.test_sanitise import ANY_TEXT

OURS = frozenset(
    re.findall(
        r"\w+",
        "html head meta title style body header p h1 h2 h3 div strong ul ol li dl dt dd nav a main section article span"
        " table caption thead tbody tr th td br code pre details summary noscript footer script",
    )
)


class Page(HTMLParser):
    """What a browser would see: scripts, event handlers, links, text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text.append(data)


@pytest.fixture(scope="module")
def page(failed: Report) -> str:
    return html.render(failed)


def test_a_reply_brings_no_tag_of_its_own_into_the_page(page: str) -> None:
    seen = Page(page)
    assert len(seen.scripts) == 3
    assert "alert(1)" not in "".join(seen.scripts)
    assert not [tag for tag, attrs in seen.tags if any(name.startswith("on") or name == "style" for name in attrs)]
    assert {tag for tag, _ in seen.tags} <= OURS


def test_the_page_asks_the_network_for_nothing(page: str) -> None:
    seen = Page(page)
    assert not [tag for tag, attrs in seen.tags if {"src", "srcset", "data", "action", "poster"} & set(attrs)]
    assert all(attrs["href"].startswith("#") for tag, attrs in seen.tags if tag == "a")  # type: ignore[union-attr]
    assert not [tag for tag, _ in seen.tags if tag in {"link", "iframe", "img", "object", "base"}]
    assert "@import" not in page
    assert "url(" not in page


def test_the_policy_names_exactly_the_scripts_of_the_page(page: str) -> None:
    seen = Page(page)
    policy = next(attrs["content"] for tag, attrs in seen.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for script in seen.scripts[1:]:
        assert html._digest(script) in policy


def test_every_link_in_the_page_has_its_place(page: str) -> None:
    seen = Page(page)
    places = {attrs.get("id") for _, attrs in seen.tags}
    assert {attrs["href"][1:] for tag, attrs in seen.tags if tag == "a" and attrs["href"]} <= places


def test_the_data_for_the_curves_is_sound_json(page: str) -> None:
    data = json.loads(Page(page).scripts[0])
    assert [chart["key"] for chart in data["charts"]] == ["rate", "ttft", "tokens", "kv", "server", "load"]
    assert data["lanes"] == ["phase", "oom", "hang", "cut", "quota", "canary"]


def test_the_page_stays_under_a_megabyte_for_a_night(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "night", Story(minutes=120, rate=2.0))
    assert len(html.render(model.read(run_dir)).encode()) < 1_000_000


def test_all_outputs_say_the_same_numbers(failed: Report, page: str) -> None:
    text = " ".join(" ".join(Page(page).text).split())
    summary, out = markdown.render(failed), io.StringIO()
    terminal.show(failed, out)
    spoken = " ".join(out.getvalue().split())
    suite = ET.fromstring(junit.render(failed).split("\n", 1)[1]).find("testsuite")
    assert suite is not None
    properties = {one.get("name"): one.get("value") for one in suite.iter("property")}
    for outcome, number in failed.outcomes.totals:
        words = f"{outcome} {figures.count(number)}"
        assert words in text
        assert words.replace("_", r"\_") in summary
        assert words in spoken
        assert properties[f"outcome.{outcome}"] == str(number)
    for state, number in failed.verdict.required:
        words = f"{number} {state}".replace("_", " ")
        assert words in text
        assert words in summary
    for fault in failed.faults:
        assert fault.symptom_seen in text
        assert fault.symptom_seen.replace("_", r"\_") in summary
    assert suite.get("failures") == str(dict(failed.verdict.required)[State.FAIL])
    assert suite.get("errors") == str(dict(failed.verdict.required)[State.UNKNOWN])
    assert properties["exit"] == str(failed.verdict.exit) == "1"


def test_junit_skips_what_is_only_shown_or_not_judged(failed: Report) -> None:
    suite = ET.fromstring(junit.render(failed).split("\n", 1)[1])
    kinds = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
    assert kinds["reclamation"] == ["failure"]
    assert kinds["fired"] == ["error"]
    assert kinds["answered"] == []
    assert kinds["drift.ttft.p99 < 20% [probe]"] == ["skipped"]
    assert kinds["leak.rss_anon < 4MiB/h"] == ["skipped"]


def test_a_run_that_nobody_judged_is_an_error_in_junit(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", Story(minutes=1))
    (run_dir / "verdict.json").unlink()
    suite = ET.fromstring(junit.render(model.read(run_dir)).split("\n", 1)[1]).find("testsuite")
    assert suite is not None
    assert suite.get("errors") == "1"


def test_the_terminal_page_is_plain_and_80_columns_wide(failed: Report) -> None:
    out = io.StringIO()
    terminal.show(failed, out, files=("runs/" + "x" * 90,))
    lines = out.getvalue().split("\n")
    assert "\x1b" not in out.getvalue()
    assert not [line for line in lines if line != line.rstrip()]
    assert not [line for line in lines if len(line) > 80 and not line.startswith("  see")]
    assert lines[0] == "FAIL  night-soak · seed 7 · commit 1a2b3c4d · exit 1"


def test_no_color_wins_over_a_terminal(failed: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured, plain = Terminal(), Terminal()
    terminal.show(failed, coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.show(failed, plain)
    assert "\x1b[1;31mFAIL" in coloured.getvalue()
    assert "\x1b" not in plain.getvalue()  # neither bold nor dim


def test_at_most_ten_annotations_worst_first(failed: Report) -> None:
    many = [Judged(f"unknown-{n}", State.UNKNOWN, "", because="why") for n in range(8)]
    many += [Judged(f"fail-{n}", State.FAIL, f"said {HOSTILE[3]}") for n in range(6)]
    many += [Judged("shown", State.FAIL, "", Level.OBSERVE)]
    lines = annotations.lines(replace(failed, judges=tuple(many)))
    assert len(lines) == 10
    assert [line.split("::")[1] for line in lines[:7]] == [f"error title=FAIL fail-{n}" for n in range(6)] + [
        "error title=UNKNOWN unknown-0"
    ]
    assert "+5 more" in lines[-1]
    assert not [line for line in lines if "\n" in line]


def test_ten_failures_are_all_named(failed: Report) -> None:
    ten = tuple(Judged(f"fail-{n}", State.FAIL, "said") for n in range(10))
    assert not [line for line in annotations.lines(replace(failed, judges=ten)) if "more" in line]


def test_the_summary_is_appended_to_the_page_of_the_job(tmp_path: Path) -> None:
    page = tmp_path / "summary"
    page.write_text("earlier step\n", encoding="utf-8")
    annotations.publish_summary("### ours\n", {"GITHUB_STEP_SUMMARY": str(page)})
    annotations.publish_summary("### nowhere\n", {})
    assert page.read_text(encoding="utf-8") == "earlier step\n### ours\n"


def test_a_flood_of_failures_keeps_the_summary_under_its_limit_and_whole(failed: Report) -> None:
    evidence = tuple(Evidence(n, f"r-{n}", "x" * 390) for n in range(50))
    flood = tuple(Judged(f"judge-{n}", State.FAIL, "y" * 390, owner="z" * 390, evidence=evidence) for n in range(300))
    summary = markdown.render(replace(failed, judges=flood))
    assert len(summary.encode()) <= 200_000
    assert "see report.html" in summary
    assert summary.count("<details>") == summary.count("</details>")


def test_headings_of_the_summary_start_at_the_third_level(failed: Report) -> None:
    assert {len(hashes) for hashes in re.findall(r"^(#+) ", markdown.render(failed), re.M)} == {3, 4}


def test_any_text_of_a_judge_is_harmless_everywhere(failed: Report) -> None:
    @settings(max_examples=25, deadline=None)
    @given(ANY_TEXT, st.sampled_from(list(State)))
    def harmless(text: str, state: State) -> None:
        evidence = (Evidence(5, text, text),)
        judged = Judged(text, state, text, limit=text, observed=text, owner=text, because=text, evidence=evidence)
        report = replace(failed, judges=(judged,), identity=replace(failed.identity, scenario=text, replay=text))
        ET.fromstring(junit.render(report).split("\n", 1)[1])
        assert len(Page(html.render(report)).scripts) == 3
        markdown.render(report).encode()
        out = io.StringIO()
        terminal.show(report, out)
        assert not [line for line in out.getvalue().split("\n") if re.match(r"\s*::\s*[A-Za-z]", line)]
        assert all(re.match(r"::error title=[^\n]*\Z", line) for line in annotations.lines(report))

    harmless()


def test_files_are_put_in_place_whole(failed: Report, tmp_path: Path) -> None:
    written = write(failed, tmp_path)
    names = ["report.html", "summary.md", "junit.xml"]
    assert [path.name for path in written] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_the_vendored_chart_library_is_the_published_one_with_its_licence() -> None:
    published = {  # uplot 1.6.32 from the npm registry
        "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    }
    vendor = Path(html.__file__).with_name("vendor")
    for name, digest in published.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest
    assert "MIT" in (vendor / "uPlot-LICENSE.txt").read_text(encoding="utf-8")


def test_the_page_names_canaries_and_bystanders_apart(failed: Report) -> None:
    key = html.render(failed).split('class="key"')[1].split("</ul>")[0]
    assert re.search(r"bystander <span[^>]*>●</span> equal: 9<", key)
    canaries = sum(number for kind, _, number in failed.timeline.compared if kind == "canary")
    assert f"{canaries} canary answers" in html.render(failed)
