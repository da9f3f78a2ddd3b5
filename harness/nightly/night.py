"""One night: select scenarios, run them one by one, store the trials, compare with past nights, write the page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from assertions.verdict import State
from harness.exits import Refusal
from harness.nightly import controls
from harness.nightly.compare import NIGHTS_READ, Night, compare
from harness.nightly.run_trial import run_trial
from harness.nightly.select import Job, select
from harness.nightly.store import Store
from harness.nightly.trial import Trial
from harness.options import RunOptions
from harness.report.sanitise import one_line, terminal
from harness.trial.environment import cpu, host_class
from harness.trial.stop import Stop, StopNow

NIGHTS_FOLDER = "nights"
DATABASE = "trials.sqlite"


@dataclass(frozen=True)
class NightOptions:
    """The options of `seatrial nightly`. Raises ValueError for an invalid value."""

    folder: Path
    runs_dir: Path
    only_virtual: bool = False
    allow_hosts: tuple[str, ...] = ()
    night: str | None = None
    """YYYY-MM-DD; None: tonight."""
    allow_command: bool = False
    """Permits a scenario in a run directory to start its target.command."""

    def __post_init__(self) -> None:
        RunOptions("each of them", allow_hosts=self.allow_hosts)  # refuses what is no HOST:PORT
        if self.night is not None:
            try:
                datetime.strptime(self.night, "%Y-%m-%d")  # noqa: DTZ007  a date, no moment
            except ValueError:
                raise ValueError(f"--night {self.night}: give the date of its first evening, as 2026-11-28") from None


def run_night(options: NightOptions, environment: Mapping[str, str], say: Callable[[str], None] = print) -> int:
    """Run the night. The exit code is that of the worst scenario or control, 130 when interrupted. Raises Refusal
    before anything is started."""
    selected, skipped = select(
        options.folder,
        options.runs_dir,
        options.allow_hosts,
        only_virtual=options.only_virtual,
        allow_command=options.allow_command,
    )
    night, here = options.night or tonight(datetime.now().astimezone()), f"{host_class()} {cpu()}"
    folder = options.runs_dir / NIGHTS_FOLDER / night
    jobs = (*controls.jobs(options.runs_dir), *selected)
    with Store.open(options.runs_dir / DATABASE) as store:
        try:
            (folder / "logs").mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise Refusal(f"{folder} can't be made: {problem.strerror}") from None
        scenarios = "1 scenario" if len(selected) == 1 else f"{len(selected)} scenarios"
        say(f"night of {night}: {scenarios} and {len(jobs) - len(selected)} controls on {here}")
        with Stop() as stop:
            try:
                _run(jobs, night, here, folder / "logs", store, stop, say)
            except StopNow:
                stop.asked = stop.asked or "SIGINT"
                say("stopped at once: the last trial was not kept")
            made = _compared(night, here, [job.scenario for job in selected], skipped, store, stop.asked)
    _tell(made, folder, environment, say)
    return made.exit


def _run(
    jobs: tuple[Job, ...], night: str, here: str, logs: Path, store: Store, stop: Stop, say: Callable[[str], None]
) -> None:
    for number, job in enumerate(jobs, 1):
        if stop.asked is not None:
            say(f"{stop.asked} received: {len(jobs) - number + 1} trials are not run")
            return
        trial = run_trial(job, night, here, logs / f"{job.scenario}.log", stop)
        store.add(trial)
        say(_line(number, len(jobs), trial))


def _line(number: int, count: int, trial: Trial) -> str:
    word, why = str(trial.state), trial.because
    if trial.control:
        found = controls.look(controls.of(trial.scenario), trial)
        word, why = ("DETECTED", f"as expected: {found.text}") if found.seen else ("MISSED", found.text)
    text = f"{number}/{count}  {word:<8}  {trial.scenario}  {trial.wall_s:.0f} s"
    return terminal(text + (f"  {one_line(why, 200)}" if why else ""))


def _compared(
    night: str, here: str, selected: list[str], skipped: list[str], store: Store, interrupted: str | None
) -> Night:
    def trials(scenario: str) -> tuple[Trial, ...]:
        return store.trials(scenario, here, until=night, nights_max=NIGHTS_READ)

    found = []
    for control in controls.CONTROLS:
        of_tonight = [trial for trial in trials(control.name) if trial.night == night]
        found.append(controls.look(control, of_tonight[-1] if of_tonight else None))
    known = [(scenario, trials(scenario)) for scenario in selected]
    gone = [name for name in store.night_before(here, night) if name not in {*selected, *skipped}]
    return compare(night, here, known, found, skipped, gone, interrupted=interrupted)


def _tell(made: Night, folder: Path, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
    from harness.nightly import page
    from harness.report.annotations import publish_summary

    for why in made.because:
        say(terminal(one_line(why)))
    for change in made.changes:
        if change.judge is None:
            say(terminal(f"changed  {change.scenario}: {change.before} last night, {change.now} tonight"))
    for row in made.rows:
        if row.state is not State.PASS:
            again = f", {row.streak} successive nights" if row.streak > 1 else ""
            say(terminal(one_line(f"{row.state or 'NOT RUN'}  {row.scenario}{again}: {row.text}")))
    counts = ", ".join(f"{number} {word}" for word, number in made.counts) or "nothing was run"
    say(f"{made.state}  night of {made.night}: {counts}; {page.lead(made)}  exit {made.exit}")
    try:
        say(f"see  {page.write(made, folder)[0]}")
        publish_summary(page.markdown(made), environment)
    except OSError as problem:
        say(f"seatrial: the night's page could not be written: {problem}")


def tonight(now: datetime) -> str:
    """The date on which the night of `now` began. A night lasts from noon to noon, local time."""
    return f"{now - timedelta(hours=12):%Y-%m-%d}"
