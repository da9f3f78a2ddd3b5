"""A public trace that is missing is skipped and said, or fails the test where SEATRIAL_DATA says that it is there."""

from dataclasses import replace
from pathlib import Path

import pytest

from scenarios import library
from tests.public_traces import CODE, DEFAULT, SOURCES, PublicTraces

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parent.parent
EITHER = (pytest.skip.Exception, pytest.fail.Exception)
"""Both are caught: a skip that is not expected would skip the test that checks it."""


def test_without_the_variable_a_missing_trace_is_skipped_with_its_path_and_the_way_to_get_it(tmp_path: Path) -> None:
    for environ in ({}, {"SEATRIAL_DATA": ""}):
        with pytest.raises(EITHER) as ended:
            PublicTraces.of(environ, tmp_path).file(CODE)
        assert ended.type is pytest.skip.Exception
        for words in (CODE, str(tmp_path), "set SEATRIAL_DATA", SOURCES[CODE]):
            assert words in str(ended.value)


def test_with_the_variable_a_missing_trace_fails_though_it_is_in_the_default_folder(tmp_path: Path) -> None:
    (tmp_path / CODE).touch()
    for named in ("/nonexistent", "/nonexistent:/nor/this", ":"):
        with pytest.raises(EITHER, match=f"no trace {CODE}") as ended:
            PublicTraces.of({"SEATRIAL_DATA": named}, tmp_path).file(CODE)
        assert ended.type is pytest.fail.Exception


def test_a_trace_is_found_in_any_folder_of_the_variable_or_in_the_default_one(tmp_path: Path) -> None:
    (tmp_path / CODE).touch()
    assert PublicTraces.of({"SEATRIAL_DATA": f"/nonexistent:{tmp_path}"}).file(CODE) == tmp_path / CODE
    by_default = PublicTraces.of({}, tmp_path)
    assert replace(by_default, required=True).file(CODE) == tmp_path / CODE
    assert PublicTraces.of({}).folders == (DEFAULT,) == (ROOT.parent / "shared" / "data",)


def test_a_scenario_asks_for_the_traces_that_it_names_and_for_no_other(tmp_path: Path) -> None:
    none = PublicTraces((tmp_path,), required=True)
    with pytest.raises(pytest.fail.Exception, match=CODE):
        none.scenario("azure-code-replay")
    for name in set(library.names()) - {"azure-code-replay"}:
        assert none.scenario(name).scenario.name == name


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_the_end_of_a_run_with_our_settings_says_why_traces_were_skipped(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (pytester.path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    pytester.makepyfile(
        test_a=f"""
        from pathlib import Path
        from tests.public_traces import PublicTraces

        def test_one():
            PublicTraces.of({{}}, Path("nowhere")).file("{CODE}")

        def test_two():
            PublicTraces.of({{}}, Path("nowhere")).file("{CODE}")

        def test_falls():
            assert False
        """
    )
    result = pytester.runpytest_subprocess("-p", "xdist.plugin", workers, "-q", "test_a.py")
    result.assert_outcomes(skipped=2, failed=1)
    result.stdout.fnmatch_lines_random([f"SKIPPED [[]2[]] *: no trace {CODE} in nowhere: put * there*", "FAILED *"])
