# Everything a newcomer needs: each target makes what it depends on.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: run test check format lint types contracts bench lock clean help

help: ## Show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Penstock needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(INSTALLED)

run: $(INSTALLED) ## Run everything here: a Temporal server with its UI, a worker, a simulated cloud, a cluster
	@$(BIN)/python -m worker --embedded $(if $(PROVIDER),--provider $(PROVIDER))

test: $(INSTALLED) ## Run the tests
	$(BIN)/python -m pytest

check: test format lint types contracts ## Everything CI runs

format: $(INSTALLED) ## Check the format
	$(BIN)/ruff format --check .

lint: $(INSTALLED) ## Check style and common mistakes
	$(BIN)/ruff check .

types: $(INSTALLED) ## Check types
	$(BIN)/mypy

contracts: $(INSTALLED) ## Check that imports point one way
	PYTHONPATH=. $(BIN)/lint-imports

bench: $(INSTALLED) ## Measure, beside Ray and beside bare Temporal
	$(BIN)/python -m bench

lock: ## Resolve the dependencies anew
	$(PYTHON) -m venv .bench/lock-venv
	.bench/lock-venv/bin/python -m pip install --quiet uv
	.bench/lock-venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --no-emit-find-links --group service --group dev --output-file requirements.lock pyproject.toml

clean: ## Remove everything that was made
	rm -rf $(VENV) .bench .penstock .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -type d -name __pycache__ -prune -exec rm -rf {} +
