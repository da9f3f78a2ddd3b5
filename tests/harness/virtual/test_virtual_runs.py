"""Whole virtual runs, from a scenario file to a verdict: the judges do not know that time was virtual."""

import contextlib
import itertools
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.options import Outcome, RunOptions
from harness.record.digest import digest, table_digests
from harness.run import run
from runtime.core.work import Sampled, Work
from runtime.device.hash_model import HashModel
from runtime.memory.kv.paged import PagedPool
from tests.harness.virtual.both import skipping_and_stepping

ROOT = Path(__file__).parents[3]
SMALL = """
schema = 1
name = "small"
means = "x"
seed = 5
drive = "virtual"
"""
PHASES = (
    'phases = { warmup = { completed = 10 }, baseline = "3s", trial = "14s", recovery = "3s", drain_max = "15s" }\n'
)
CALM = """
target = { knobs = { request_timeout_s = 4 } }
canary = { every = "3s" }
load = [{ id = "chat", rate = "3/s", prompt_tokens = [20, 60], output_tokens = [4, 16] }]
"""
HANG = (
    CALM
    + """
[[fault]]
id = "hang"
do = "device.launch: hang 9s"
when = { at = "3s" }
[fault.expect]
outcomes = ["ok", "timeout", "refused"]
victims = "all"
marks = ["guard.cancelled"]
recover = "10s"
"""
)
CROWD = """
target = { knobs = { kv_blocks = 48, waiting_max = 6 } }
[[load]]
id = "users"
arrivals = "closed"
users = 6
rate = "2/s"
prompt_tokens = [20, 200]
output_tokens = [4, 60]
shared_prefix = 0.7
[[load]]
id = "odd"
rate = "4/s"
stream = 0.5
malformed = 0.2
timeout = "1s"
prompt_tokens = [20, 300]
output_tokens = [4, 80]
cancel = [{ share = 0.1, at = "queued" }, { share = 0.1, at = "prefill" }, { share = 0.1, at = "token 3" }]
"""
SHORT = PHASES.replace("14s", "6s")
MIXED = (
    CROWD
    + """
[[fault]]
id = "late"
do = "server.stream: delay 2s"
when = { at = "1s", times = 5, interval = 7 }
expect = { outcomes = ["ok", "timeout", "refused"], victims = "all", recover = "2s" }
[[fault]]
id = "band"
do = "server.stream: error"
when = { at = "4s", times = 3, interval = 9 }
expect = { outcomes = ["ok", "timeout", "refused", "inband_error"], victims = "all", recover = "2s" }
"""
)


def small(folder: Path, text: str, phases: str = PHASES, **options: object) -> Outcome:
    file = folder / "small.toml"
    file.write_text(SMALL + phases + text)
    return run(RunOptions(str(file), folder / "runs", **options), say=lambda line: None)  # type: ignore[arg-type]


def judges(outcome: Outcome) -> dict[str, str]:
    verdict = json.loads((outcome.run_dir / "verdict.json").read_text())
    return {judge["name"]: judge["state"] for judge in verdict["judges"]}


@pytest.fixture(scope="module")
def library_run(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run(RunOptions("pr-cut-and-oom", tmp_path_factory.mktemp("library")), say=lambda line: None)


@pytest.mark.slow
def test_the_library_scenario_passes_with_every_fault_felt(library_run: Outcome) -> None:
    assert library_run.exit == 0
    found = judges(library_run)
    for name in ("answered", "alive", "tokens", "invariants", "fired", "reclamation", "recovery", "e2e.p95 < 2s"):
        assert found[name] == "PASS"


@pytest.mark.slow
def test_the_report_names_the_cost_table_and_how_far_it_was_off(library_run: Outcome) -> None:
    report = (library_run.run_dir / "report.html").read_text()
    assert "cost table cpu-default" in report
    assert re.search(r"off by step_p50 [+-]?\d", report.replace("&#43;", "+"))


@pytest.mark.slow
def test_requests_that_are_swapped_survive_copies_that_fail_and_the_lost_one_is_seen(tmp_path: Path) -> None:
    outcome = run(RunOptions("pr-swap-storm", tmp_path), say=lambda line: None)
    assert outcome.exit == 0
    found = judges(outcome)
    for name in ("answered", "tokens", "invariants", "fired", "reclamation", "recovery"):
        assert found[name] == "PASS"


@pytest.fixture(scope="module")
def mixed_run(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return small(tmp_path_factory.mktemp("mixed"), MIXED, SHORT)


def test_same_seed_same_digest(tmp_path: Path, mixed_run: Outcome) -> None:
    files = [outcome.run_dir / "run.sqlite" for outcome in (mixed_run, small(tmp_path, MIXED, SHORT))]
    assert table_digests(files[0]) == table_digests(files[1])
    assert digest(files[0]) == digest(files[1])


def test_another_seed_another_digest(tmp_path: Path) -> None:
    one, other = (digest(small(tmp_path, CALM, SHORT, seed=seed).run_dir / "run.sqlite") for seed in (5, 6))
    assert one != other


@pytest.mark.parametrize(
    ("text", "phases"),
    [(CALM, PHASES), (CROWD, SHORT), (HANG, PHASES), (MIXED, SHORT)],
    ids=["calm", "crowd", "hang", "mixed"],
)
def test_fast_forward_changes_no_row_of_the_history(text: str, phases: str, tmp_path: Path) -> None:
    skipping, stepping = skipping_and_stepping(lambda: small(tmp_path, text, phases))
    assert skipping == stepping


def test_clients_of_every_kind_are_answered_once_and_both_ledgers_agree(mixed_run: Outcome) -> None:
    verdict = json.loads((mixed_run.run_dir / "verdict.json").read_text())
    answered = next(judge for judge in verdict["judges"] if judge["name"] == "answered")
    assert answered["state"] == "PASS", answered
    found = judges(mixed_run)
    assert {found[name] for name in ("tokens", "invariants", "fired", "reclamation")} == {"PASS"}


def test_a_hang_ends_requests_by_their_deadline_and_time_goes_on(tmp_path: Path) -> None:
    outcome = small(tmp_path, HANG)
    assert outcome.exit == 0
    found = judges(outcome)
    assert (found["fired"], found["deadline"], found["reclamation"]) == ("PASS", "PASS", "PASS")


def test_a_leak_that_nobody_declared_fails_with_its_owner(tmp_path: Path) -> None:
    outcome = small(tmp_path, CALM, undeclared=("memory.free: drop",))
    assert outcome.exit == 1
    assert judges(outcome)["reclamation"] == "FAIL"
    assert "chat-" in (outcome.run_dir / "verdict.json").read_text()


def test_a_device_that_is_given_up_ends_the_run_and_every_request_once(tmp_path: Path) -> None:
    outcome = small(tmp_path, HANG.replace("request_timeout_s = 4", "request_timeout_s = 60, hang_fatal_s = 5"))
    assert outcome.exit == 1
    found = judges(outcome)
    assert found["alive"] == "FAIL"
    connection = sqlite3.connect(outcome.run_dir / "run.sqlite")
    (ended_by,) = connection.execute("SELECT ended_by FROM phase WHERE name = 'trial'").fetchone()
    (open_ones,) = connection.execute(
        "SELECT count(*) FROM request WHERE id NOT IN (SELECT request FROM reply)"
    ).fetchone()
    connection.close()
    assert (ended_by, open_ones) == ("died", 0)


def test_a_pool_that_gives_a_block_twice_is_seen_by_the_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take, calls = PagedPool.take, itertools.count()

    def twice(pool: PagedPool, owner: str, n: int, **attrs: str) -> tuple[list[int], list[int]]:
        blocks, generations = take(pool, owner, n, **attrs)
        others = [held[-1] for name, held in pool._env.ledger._held[pool.name].items() if name != owner and held]
        if others and next(calls) % 5 == 4:
            blocks = [*blocks[:-1], others[0]]
        return blocks, generations

    monkeypatch.setattr(PagedPool, "take", twice)
    monkeypatch.setattr(PagedPool, "release", _without_complaint(PagedPool.release))
    text = CALM.replace("3/s", "30/s").replace("request_timeout_s = 4", "prefix_cache = false")
    found = judges(small(tmp_path, text))
    assert found["invariants"] == "FAIL"


def test_kv_damaged_behind_the_back_of_the_tags_is_seen_in_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, calls = HashModel.run, itertools.count()

    def damage(model: HashModel, work: Work) -> tuple[Sampled | None, ...]:
        drawn = run(model, work)
        if next(calls) % 5 == 4:
            model.slots[work.slots[-1]] = 12345
        return drawn

    monkeypatch.setattr(HashModel, "run", damage)
    assert judges(small(tmp_path, CALM))["tokens"] == "FAIL"


def _without_complaint(release: Callable[..., None]) -> Callable[..., None]:
    """The planted bug breaks the ledger too; here only what is in the blocks counts."""

    def quietly(pool: PagedPool, *args: object, **attrs: object) -> None:
        with contextlib.suppress(KeyError):
            release(pool, *args, **attrs)

    return quietly


def test_a_quiesce_stops_the_load_and_audits_exactly(tmp_path: Path) -> None:
    phases = SHORT.replace('trial = "6s"', 'trial = "6s", quiesce = { every = "2s", max = "5s" }')
    outcome = small(tmp_path, CROWD, phases)
    assert judges(outcome)["reclamation"] == "PASS"


def test_virtual_runs_need_neither_torch_nor_locust(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL + PHASES + HANG)
    script = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "locust", "gevent", "safetensors", "tokenizers", "transformers"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from pathlib import Path
from harness.options import RunOptions
from harness.run import run
sys.exit(run(RunOptions({str(tmp_path / "small.toml")!r}, Path({str(tmp_path / "runs")!r}))).exit)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    judged = (
        "import sys\n"
        + script.partition("from pathlib")[0]
        + (
            "from pathlib import Path\nfrom harness.finalize import judge\n"
            f"print(judge(Path({str(tmp_path / 'runs' / 'latest')!r})).exit_code)"
        )
    )
    again = subprocess.run([sys.executable, "-c", judged], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert again.stdout.strip() == "0", again.stderr[-2000:]
