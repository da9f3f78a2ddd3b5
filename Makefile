# Everything from a bare Python 3.11: `make soak` tries the built-in runtime, `make test` checks this project.
PYTHON ?= python3.11
TORCH ?= torch==2.13.0
RUNS_DIR ?= runs
VENV = .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready
# Of its 15,000 files most are never imported: each is compiled when it is.
INSTALL = $(BIN)/python -m pip install -q --no-compile -c constraints.txt
# Where it is set, each of the hundreds of processes that tests start compiles the project anew: 12 s of CPU to collect
# the tests instead of 24.
export PYTHONDONTWRITEBYTECODE =

.PHONY: soak demo test lint slow crash live long clean

soak: $(READY)          ## a trial of the built-in runtime: HTTP, Locust load, faults, verdict (about 2 minutes)
	RUNS_DIR=$(RUNS_DIR) $(BIN)/seatrial run first-soak

demo: $(READY)          ## a planted leak that must be found: exits 1 (under a minute)
	RUNS_DIR=$(RUNS_DIR) $(BIN)/seatrial demo

test: $(READY) lint     ## lint, types, import rules, and the whole fast suite
	$(BIN)/python -m pytest -q -n auto --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

slow: crash live        ## the tests that start real processes or take long (about fifteen minutes on two cores)

# Crashes are told by what is left and not by timing, so two run at once, and other tests beside them.
crash: $(READY)
	$(BIN)/python -m pytest -q -m 'slow and not soak' -n 2 tests/crash

# Live trials are judged by their timing: one by one, and what only computes runs beside them, where it takes nothing
# from them: niced, and no thread of it spins.
live: $(READY)
	@rest=$$(mktemp); \
	OMP_WAIT_POLICY=passive nice -n 19 \
	  $(BIN)/python -m pytest -q -m 'slow and not soak and not live' -n 0 --ignore=tests/crash >$$rest 2>&1 & beside=$$!; \
	$(BIN)/python -m pytest -q -m 'slow and not soak and live' -n 0; live=$$?; \
	wait $$beside; computing=$$?; cat $$rest; rm $$rest; [ $$live = 0 ] && [ $$computing = 0 ]

long: $(READY)          ## everything, for a night
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -q -m 'slow or soak' -n 0

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) $(TORCH)
	$(INSTALL) -e '.[dev,serving]'
	touch $(READY)

clean:
	rm -rf $(VENV)
