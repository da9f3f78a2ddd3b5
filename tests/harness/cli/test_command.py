"""The command as a person or a CI job meets it. What depends on the process (start, signals, pipes) is tried in one."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cli.conftest import ROOT, Seatrial

COMMANDS = (
    "doctor",
    "demo",
    "run",
    "check",
    "plan",
    "faults",
    "serve",
    "judge",
    "report",
    "replay",
    "digest",
    "calibrate",
    "nightly",
)
HEAVY = ("torch", "scipy", "numpy", "locust", "gevent", "jinja2", "rich", "starlette", "tokenizers")


def test_help_loads_nothing_heavy_and_tells_the_exit_codes() -> None:
    commands = [[], *([command] for command in COMMANDS)]
    probe = (
        "import sys; from harness.cli import main\n"
        f"for words in {commands!r}:\n"
        "    code = main([*words, '--help'])\n"
        f"    print('ended', words, code, [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, timeout=180)
    said = done.stdout
    for words in commands:
        told, end, said = said.partition(f"ended {words} 0 []\n")
        assert end, f"{words} --help: {told}{done.stderr}"
        if words != ["serve"]:  # the server's own options, its own parser
            assert "130 interrupted" in " ".join(told.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run",), "Missing argument"),
        (("nonsense",), "No such command"),
        (("run", "--nonsense", "clean"), "No such option"),
        (("run", "--minutes", "-3", "clean"), "--minutes -3: give more than 0"),
        (("run", "--seed", "x", "clean"), "'--seed'"),
        (("run", "nosuch"), "no such file, and no scenario of this name"),
        (("check", "nosuch"), "no such file"),
        (("faults", "kv.tak"), 'did you mean "kv.take"?'),
        (("faults", "--layer", "kv"), "no layer 'kv'"),
        (("judge", "nope"), "no run 'nope'"),
        (("report",), "no run in"),
        (("replay",), "no run in"),
        (("digest",), "no run in"),
        (("digest", "tests"), "tests is not a run: it holds no run.sqlite"),
        (("judge", "tests"), "tests is not a run: it holds neither plan.json nor run.sqlite"),
        (("plan", "tests"), "tests  this is a folder"),
        (("plan", "clean", "--target", "localhost:80"), "--target localhost:80  a URL starts with http://"),
        (("plan", "clean", "--pid", "9"), "--pid 9  kind = "),
        (("run", "clean", "--allow-host", "gpu7"), "--allow-host gpu7: give HOST:PORT"),
        (("run", "clean", "--allow-host", "http://gpu7:80"), "give HOST:PORT"),
        (("nightly", "scenarios/library", "--allow-host", "gpu7"), "--allow-host gpu7: give HOST:PORT"),
    ],
)
def test_a_mistake_is_4_with_a_remedy_and_no_traceback(
    seatrial: Seatrial, arguments: tuple[str, ...], words: str
) -> None:
    done = seatrial(*arguments)
    assert done.returncode == 4
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_process_ends_with_the_code_and_tells_a_mistake_on_stderr(process: Seatrial) -> None:
    done = process("faults", "--layer", "kv")
    assert (done.returncode, done.stdout) == (4, "")
    assert "no layer 'kv'" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_undeclared_mistakes_are_told_at_once(seatrial: Seatrial) -> None:
    typed = ("kv.tak: oom", "nonsense", "kv.take: oom")
    done = seatrial("run", "clean", "--virtual", *(word for line in typed for word in ("--undeclared", line)))
    assert done.returncode == 4
    assert 'did you mean "kv.take"?' in done.stderr
    assert 'no ":" between point and action' in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_the_command_alone_says_its_help_once_and_is_a_wrong_use(seatrial: Seatrial) -> None:
    done = seatrial()
    assert done.returncode == 4
    assert done.stderr.startswith("Usage: seatrial")
    assert done.stderr.count("Usage:") == 1


def test_a_runs_folder_that_can_not_be_is_3_with_what_to_do(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = seatrial("run", "clean", "--virtual", "--runs-dir", str(tmp_path / "file"))
    assert done.returncode == 3
    assert done.stderr.rstrip().endswith("can't be written: Not a directory; give another --runs-dir")
    assert "Errno" not in done.stderr


def test_python_dash_o_is_refused(process: Seatrial) -> None:
    done = process("faults", python=("-O",))
    assert done.returncode == 4
    assert "without -O" in done.stderr


def test_a_package_that_shadows_ours_is_named_with_the_cure(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "__init__.py").write_text("", encoding="utf-8")
    probe = "import sys, harness.cli; sys.path.insert(0, sys.argv[1]); sys.exit(harness.cli.main(['faults']))"
    done = subprocess.run(
        [sys.executable, "-c", probe, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 3
    assert str(tmp_path / "runtime") in done.stderr
    assert "environment of its own" in done.stderr


def test_an_import_that_fails_is_3_and_not_a_failed_trial() -> None:
    probe = "import sys, harness.cli; sys.modules['typer'] = None; sys.exit(harness.cli.main(['faults']))"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 3
    assert "internal error of seatrial" in done.stderr


def test_a_reader_that_leaves_does_not_change_the_code() -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "harness", "faults", "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait(timeout=180) == 0
    assert child.stderr is not None
    assert child.stderr.read() == ""
    child.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_130(number: signal.Signals) -> None:
    probe = (  # who started these tests in the background may have had SIGINT ignored
        "import signal, sys, time, harness.cli, harness.cli.app as app, harness.cli.catalogue as page;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        "page.show = lambda *a, **k: (print('ready', flush=True), time.sleep(60));"
        "sys.exit(harness.cli.main(['faults']))"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", probe], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(number)
    out, err = child.communicate(timeout=180)
    assert child.returncode == 130
    assert err in ("seatrial: interrupted\n", "")
    assert out == ""


def test_library_scenarios_that_need_no_trace_pass_the_check(seatrial: Seatrial) -> None:
    library = sorted((ROOT / "scenarios" / "library").glob("*.toml"))
    names = [path.stem for path in library if "trace" not in path.read_text(encoding="utf-8")]
    assert len(names) >= 5
    done = seatrial("check", *names)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ok  ") == len(names)


def test_check_reports_every_file_and_every_problem(seatrial: Seatrial, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text('schema = 1\nname = "x"\nmeans = "y"\nnonsense = 1\nphases = { trial = "1x" }\n', encoding="utf-8")
    done = seatrial("check", str(bad), "clean")
    assert done.returncode == 4
    assert "ok  clean" in done.stdout
    assert "bad.toml:4:1" in done.stderr
    assert "nothing was started" in done.stderr


def test_plan_can_be_read_by_a_program_and_takes_what_was_typed(seatrial: Seatrial) -> None:
    done = seatrial("plan", "first-soak", "--json", "--seed", "99", "--minutes", "2")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["seed"] == 99
    assert next(phase for phase in plan["phases"] if phase["name"] == "trial")["planned_s"] == 120.0


def test_the_catalogue_names_each_action_with_its_symptom(seatrial: Seatrial) -> None:
    done = seatrial("faults", "--json")
    take = next(point for point in json.loads(done.stdout) if point["point"] == "kv.take")
    assert take["actions"][0]["symptom"] == "mark:kv.out_of_blocks"
    assert "kv.take" in seatrial("faults").stdout


def test_report_writes_the_files_and_is_0_whatever_the_verdict(
    seatrial: Seatrial, passed_run: Path, tmp_path: Path
) -> None:
    run_dir = tmp_path / "runs" / passed_run.name
    shutil.copytree(passed_run, run_dir)
    done = seatrial("report", "7f3a")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(run_dir / name) for name in ("report.html", "summary.md", "junit.xml")]
    assert (run_dir / "report.html").stat().st_size > 50_000


def test_judge_says_the_verdict_and_exits_with_it(seatrial: Seatrial, passed_run: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "runs" / passed_run.name
    shutil.copytree(passed_run, run_dir)
    page = tmp_path / "page.md"
    done = seatrial("judge", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(page))
    verdict = json.loads((run_dir / "verdict.json").read_text(encoding="utf-8"))
    assert done.returncode == verdict["exit"] != 0, done.stderr
    assert done.stdout.startswith(f"{verdict['state']}  night-soak")
    assert "::error title=" in done.stdout
    assert page.read_text(encoding="utf-8").startswith("### ")
    assert seatrial("judge", "--report-only").returncode == 0


def test_digest_is_the_same_for_the_same_rows(seatrial: Seatrial, passed_run: Path) -> None:
    first, second = seatrial("digest", str(passed_run)), seatrial("digest", str(passed_run))
    assert first.returncode == 0
    assert first.stdout == second.stdout
    assert len(first.stdout.strip()) == 32
    assert "  request" in seatrial("digest", str(passed_run), "--tables").stdout


def test_a_run_that_could_not_begin_leaves_nothing_and_latest_is_the_run_before(
    seatrial: Seatrial, tmp_path: Path
) -> None:
    nobody = ("run", "your-server", "--target", "http://127.0.0.1:9", "--model", "m")
    for before in ([], ["r1"]):
        for name in before:
            (tmp_path / "runs" / name).mkdir(parents=True)
            (tmp_path / "runs" / "latest").symlink_to(name)
        done = seatrial(*nobody)
        assert done.returncode == 4
        assert done.stderr.endswith("nothing listens there; start the server or correct its address\n")
        assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [*(["latest"] if before else []), *before]
    assert (tmp_path / "runs" / "latest").resolve().name == "r1"
