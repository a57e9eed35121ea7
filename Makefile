# Two commands do all the set-up on a machine with Python 3.11+, make and (for one tier) Go:
#   make demo     make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
FAST := $(wildcard tests/unit tests/conformance tests/simulation) tests/api_conformance
LOCK := $(BIN)/pip-compile -q --generate-hashes --strip-extras --allow-unsafe \
	--no-emit-index-url --no-emit-find-links
REAL := tests/controlplane tests/api_conformance

-include tests/controlplane/controlplane.mk

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: venv
venv: $(STAMP) ## Make the virtual environment from the lock file

$(STAMP): requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --require-hashes -r requirements-dev.lock
	$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: lint
lint: $(STAMP) ## Check style, types and layers; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(STAMP) ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: demo
demo: $(STAMP) ## Schedule examples/demo in the embedded cluster, in virtual time
	$(BIN)/arranger simulate -f examples/demo

.PHONY: lock
lock: ## Pin the dependencies again after an edit of pyproject.toml
	$(LOCK) -o requirements.lock pyproject.toml
	$(LOCK) --extra dev -o requirements-dev.lock pyproject.toml

.PHONY: test-fast
test-fast: $(STAMP) ## The tiers that need no Go, in parallel
	$(BIN)/pytest -q -n2 -m "not controlplane" $(FAST)

.PHONY: test
test: lint test-fast ## Lint and run every tier; the control-plane tier only where Go is
ifneq ($(CONTROLPLANE_POSSIBLE),)
	$(MAKE) --no-print-directory controlplane
	$(BIN)/pytest -q -m controlplane $(REAL)
else
	@echo "SKIPPED: the control-plane tier: it needs Go, which is not installed"
endif

.PHONY: bench
bench: $(STAMP) controlplane ## Measure against kube-scheduler on the real control plane
	$(BIN)/python -m tests.benchmarks.bench_throughput
