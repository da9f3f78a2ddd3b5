"""The page and its Markdown: one model, the same numbers, nothing of a judge's text acts on the reader."""

import html as entities
import re
from dataclasses import replace
from pathlib import Path

import pytest

from assertions.verdict import State
from harness.nightly import page
from harness.nightly.compare import SHOWN_FIGURES, SHOWN_LATENCY, Night, compare
from harness.nightly.controls import CONTROLS, ControlResult
from harness.report import figures
from tests.harness.nightly.fakes import HOST, TONIGHT, asleep, awake, said, trial

NASTY = "</script><script>alert(1)</script>\x1b[31m | ::error ::x"
FOLDER = Path("/runs/nights/2026-11-28")


def a_night(controls: tuple[ControlResult, ...] | None = None, text: str = "kept 3 blocks") -> Night:
    def one(night: str, state: State, value: float) -> object:
        judges = said(figures={"value": value}), said("reclamation", state, text=text, figures={"excess": value * 10})
        return trial(night, state, *judges)

    known = [("chat", [one("2026-11-27", State.PASS, 0.0412), one(TONIGHT, State.FAIL, 0.0523)])]
    return compare(TONIGHT, HOST, known, controls or awake(), ["live-one"], ["flood"])  # type: ignore[arg-type]


def plain(markup: str) -> str:
    body = re.sub(r"<style>.*?</style>", "", markup, flags=re.S)
    return " ".join(entities.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def cells(markdown: str) -> set[str]:
    rows = [line.strip("| ").split(" | ") for line in markdown.splitlines() if line.startswith("|")]
    return {entities.unescape(re.sub(r"\\(.)", r"\1", cell.strip())) for row in rows for cell in row}


def test_both_outputs_show_the_same_numbers() -> None:
    night = a_night()
    text, told = plain(page.html(night, FOLDER)), cells(page.markdown(night))
    assert len(night.figures) == 3
    for figure in night.figures:
        numbers = [figures.quantity(value, figure.unit) for value in (figure.tonight, figure.last, figure.median)]
        row = " ".join(
            [figure.scenario, page.label(figure.metric), *numbers, str(figure.nights), page.ratio(figure.ratio)]
        )
        assert row in text
        assert {page.label(figure.metric), *numbers, page.ratio(figure.ratio)} <= told
    assert "52.3 ms" in text
    assert "41.2 ms" in text
    assert "1.27" in told


def test_the_page_says_state_streak_commits_and_replay() -> None:
    text = plain(page.html(a_night(), FOLDER))
    for words in ("FAIL", "kept 3 blocks", "aaaaaaaaaaaa", "seatrial replay", HOST, "live-one", "flood", "2026-11-27"):
        assert words in text


def test_a_control_that_was_not_seen_comes_first() -> None:
    for shown in (page.html(a_night(asleep()), FOLDER), page.markdown(a_night(asleep()))):
        assert -1 < shown.find("planted-leak was not detected") < shown.find("kept 3 blocks")
    asleep_page, awake_page = page.html(a_night(asleep()), FOLDER), page.html(a_night(), FOLDER)
    assert asleep_page.index('id="controls"') < asleep_page.index('id="changes"')
    assert awake_page.index('id="controls"') > awake_page.index('id="changes"')


def test_nothing_that_a_judge_says_acts_on_the_reader() -> None:
    night = a_night(text=NASTY)
    page_text, markdown = page.html(night, FOLDER), page.markdown(night)
    assert "<script" not in page_text
    assert "\x1b" not in page_text + markdown
    assert r"\x1b[31m" in plain(page_text)
    assert "<script" not in markdown
    assert "\n::error" not in markdown


def test_the_page_loads_nothing_and_runs_no_script() -> None:
    text = page.html(a_night(), FOLDER)
    assert "default-src 'none'; script-src 'none'; style-src 'sha256-" in entities.unescape(text)
    assert not re.search(r'(src|href)="(?!\.\./|#)', text)


def test_a_trend_is_drawn_once_there_is_a_night_before() -> None:
    first, second = a_night().figures[0], replace(a_night().figures[0], past=())
    assert page.html(a_night(), FOLDER).count("<svg") == len(a_night().figures) + len(a_night().moved)
    assert "2 nights" in page.trend(first)
    assert page.trend(second) == ""


def test_a_trial_links_to_its_own_report() -> None:
    assert 'href="../../2026-11-28_010203_abcd/report.html"' in page.html(a_night(), FOLDER)


def test_the_markdown_fits_a_jobs_page(tmp_path: Path) -> None:
    known = [(f"s{n}", [trial(TONIGHT, State.FAIL, said("a", State.FAIL, text="é" * 900))]) for n in range(800)]
    text = page.markdown(compare(TONIGHT, HOST, known, awake()))
    assert len(text.encode()) <= 200_000
    assert "night.html" in text


@pytest.mark.parametrize(
    "controls", [awake(), asleep(), tuple(ControlResult(c, False, "not run", None) for c in CONTROLS)]
)
def test_writing_leaves_three_whole_files(tmp_path: Path, controls: tuple[ControlResult, ...]) -> None:
    paths = page.write(a_night(controls), tmp_path / "nights" / TONIGHT)
    assert sorted(path.name for path in paths[0].parent.iterdir()) == ["junit.xml", "night.html", "night.md"]
    assert all(path.read_text().strip() for path in paths)


def test_a_night_in_which_nothing_was_run_has_a_page(tmp_path: Path) -> None:
    night = compare(TONIGHT, HOST, [("chat", ())], asleep(), interrupted="SIGTERM")
    assert "not run: SIGTERM received" in plain(page.html(night, FOLDER))
    assert "no scenario was run" in page.markdown(night)


def test_every_figure_that_is_shown_has_a_name_that_people_say() -> None:
    names = [f"latency: {name}" for name in SHOWN_LATENCY] + [f"judge: {name}" for name in SHOWN_FIGURES] + ["wall_s"]
    labels = [page.label(name) for name in names]
    assert len(set(labels)) == len(names)
    assert not [label for label in labels if "_" in label]
    assert page.label("latency: trial.ttft_p99_s") == "TTFT p99 in the trial"
    assert page.label("ttft.p99 < 1s [chat]: value") == "ttft.p99 < 1s [chat]"
    assert page.label("reclamation: excess") == "reclamation: too many"
