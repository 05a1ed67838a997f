# Targets for users and developers. Each one first makes what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One stamp for each lock file that is installed. The later ones include the earlier ones.
RUN := $(VENV)/.installed-run
WORKER := $(VENV)/.installed-worker
ALL := $(VENV)/.installed
INSTALL = @$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Penstock needs Python 3.11 or newer: make PYTHON=python3.12 …")' \
	&& $(PYTHON) -m embedded.install $(VENV)

# Pinned with hashes and without index addresses, for every platform.
COMPILE := .bench/lock-venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links

.PHONY: help run install-google install-traces test check check-laws check-input format lint types contracts bench chaos lock clean

help: ## Show the targets
	@grep -E '^[a-z -]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 34

# Ctrl-C reaches make too, which then waits for the recipe and exits with 130 itself. Without the trap and the last test it would
# print an error as well, and also ("wait: No child processes") if the recipe ended before make had taken note: so it waits until make
# no longer catches SIGINT, bit 2 of the mask in /proc. Where there is no /proc a second must do, and where only the service was
# interrupted, five.
run: $(if $(filter gcp-emulator,$(PROVIDER)),$(WORKER),$(RUN)) ## Run Penstock with a Temporal server and a simulated cloud (or PROVIDER=gcp-emulator)
	@trap : INT; code=75; while [ $$code -eq 75 ]; do \
		code=0; $(BIN)/python -m embedded $(if $(PROVIDER),--provider $(PROVIDER)) || code=$$?; \
	done; \
	[ $$code -eq 130 ] || exit $$code; \
	[ -r /proc/$$PPID/status ] || exec sleep 1; \
	for _ in $$(seq 100); do \
		caught=$$(sed -n 's/^SigCgt:[[:space:]]*/0x/p' /proc/$$PPID/status 2>/dev/null); \
		[ $$(($${caught:-0} & 2)) -ne 0 ] || exit 0; \
		sleep 0.05; \
	done

install-google install-traces: $(WORKER) ## Install what `make run` can do without: Google's client libraries and OpenTelemetry

test: $(ALL) ## Run the tests
	$(BIN)/python -m pytest

check: test check-laws check-input format lint types contracts ## Run everything that CI runs

check-laws: $(ALL) ## Check the laws of decisions on many more examples
	LAW_EXAMPLES=200 $(BIN)/python -m pytest -q tests/core/decision tests/core/elastic tests/core/test_silence.py tests/core/answers

check-input: $(ALL) ## Give 10,000 bad files, messages, queries and command lines to their readers
	$(BIN)/python -m tests.bad_input

format: $(ALL) ## Check the format
	$(BIN)/ruff format --check .

lint: $(ALL) ## Check style and common mistakes
	$(BIN)/ruff check .

types: $(ALL) ## Check types
	$(BIN)/mypy

contracts: $(ALL) ## Check the import contracts
	PYTHONPATH=. $(BIN)/lint-imports

bench: $(ALL) ## Run the benchmarks, against Ray and against bare Temporal
	$(BIN)/python -m bench

chaos: $(ALL) ## Kill, fail, steal and reset a real service for MINUTES=5 (SEED=… repeats a run), then count what went wrong
	$(BIN)/python -m bench.chaos --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED))

$(RUN): requirements-run.lock pyproject.toml
	$(INSTALL) requirements-run.lock
	@touch $(RUN)

$(WORKER): requirements-worker.lock pyproject.toml | $(RUN)
	$(INSTALL) requirements-worker.lock
	@touch $(WORKER)

$(ALL): requirements.lock pyproject.toml
	$(INSTALL) requirements.lock
	@touch $(RUN) $(WORKER) $(ALL)

lock: ## Resolve the dependencies again and write the three lock files
	$(PYTHON) -m venv .bench/lock-venv
	.bench/lock-venv/bin/python -m pip install --quiet uv
	$(COMPILE) --group dev --output-file requirements.lock pyproject.toml
	$(COMPILE) --group worker --constraint requirements.lock --output-file requirements-worker.lock pyproject.toml
	$(COMPILE) --group run --constraint requirements.lock --output-file requirements-run.lock pyproject.toml

clean: ## Remove everything that was made, except data; DATA=1 removes the data of `make run` too
	@$(PYTHON) -m embedded.clean $(if $(DATA),--data)
