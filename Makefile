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

.PHONY: help run install-google install-traces test check format lint types contracts bench lock clean

help: ## Show the targets
	@grep -E '^[a-z -]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 34

# Ctrl-C reaches make too, which then exits with 130 itself. Without the trap and the test it would print an error as well.
run: $(if $(filter gcp-emulator,$(PROVIDER)),$(WORKER),$(RUN)) ## Run Penstock with a Temporal server and a simulated cloud (or PROVIDER=gcp-emulator)
	@trap : INT; $(BIN)/python -m embedded $(if $(PROVIDER),--provider $(PROVIDER)) || [ $$? -eq 130 ]

install-google install-traces: $(WORKER) ## Install what `make run` can do without: Google's client libraries and OpenTelemetry

test: $(ALL) ## Run the tests
	$(BIN)/python -m pytest

check: test format lint types contracts ## Run everything that CI runs

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
