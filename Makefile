# Two commands do all the set-up on a machine with Python 3.11+, make and (for one tier) Go:
#   make demo     make test
PYTHON ?= python3
# Tests and benchmarks start hundreds of processes: with bytecode each imports in half the time.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := $(BIN)/pip-compile -q --generate-hashes --no-strip-extras --allow-unsafe \
	--no-emit-index-url --no-emit-find-links
# Status 5 is pytest's "no test selected": no failure in a tier that is still empty.
NONE_IS_FINE := || [ $$? -eq 5 ]
FAST := tests/unit tests/project tests/conformance tests/differential tests/specification tests/simulation tests/api_conformance tests/hostile tests/fuzz tests/swarm tests/seeded_bugs tests/mutants tests/ui
# What our service accounts ask a real API server for, while its tests run.
ASKED := $(CURDIR)/build/rights-asked.txt
REAL := tests/controlplane tests/api_conformance tests/differential

-include tests/controlplane/controlplane.mk

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: venv
venv: $(STAMP) ## Make the virtual environment from the lock file

$(STAMP): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than 3.11: name another with PYTHON=..."; exit 2; }
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
demo: $(STAMP) ## Schedule examples/demo live in an embedded cluster (add --keep by hand to stay)
	$(BIN)/arranger demo

.PHONY: lock
lock: $(STAMP) ## Pin the dependencies again after an edit of pyproject.toml
	$(LOCK) -o requirements.lock pyproject.toml
	$(LOCK) --extra tracing -o requirements-tracing.lock pyproject.toml
	$(LOCK) --extra dev --extra docs --extra tracing -o requirements-dev.lock pyproject.toml
	$(LOCK) -o requirements-fuzz.lock requirements-fuzz.in
	$(LOCK) -o requirements-mutants.lock requirements-mutants.in

.PHONY: test-fast
test-fast: $(STAMP) ## The tiers that need no Go, in parallel
	$(BIN)/pytest -q -n2 -m "not controlplane and not benchmark" $(FAST) $(NONE_IS_FINE)

.PHONY: coverage
coverage: $(STAMP) ## Show which lines the tiers that need no Go leave out
	$(BIN)/pytest -q -n2 -m "not controlplane and not benchmark" --cov --cov-report=term $(FAST)

.PHONY: test-controlplane
test-controlplane: $(STAMP) controlplane oracle celjudge quantityjudge ## The tier on the real control plane
	@$(MAKE) --no-print-directory -k programs || echo "SKIPPED: tests with the programs that are not built"
	@rm -f $(ASKED)
	ARRANGER_RIGHTS_RECORD=$(ASKED) $(BIN)/pytest -q -m "controlplane and not benchmark" $(REAL) $(NONE_IS_FINE)

# The tier on the real control plane waits more than it computes: it runs beside the others, and what
# it says comes after them. What is left out is said before the tests, so that the output ends with
# pytest's closing line.
BESIDE := build/test-controlplane.log
.PHONY: test
test: lint ## Lint and run every tier; the control-plane tier only where Go is
	@$(if $(CONTROLPLANE_POSSIBLE),,echo "SKIPPED: the control-plane tier: it needs Go, which is not installed")
	@command -v chromium >/dev/null || echo "SKIPPED: the browser tier: it needs chromium, which is not installed"
	@mkdir -p build
	@$(if $(CONTROLPLANE_POSSIBLE),$(MAKE) --no-print-directory test-controlplane >$(BESIDE) 2>&1 & beside=$$!;) \
		$(MAKE) --no-print-directory test-fast; fast=$$?; \
		$(if $(CONTROLPLANE_POSSIBLE),wait $$beside; real=$$?; cat $(BESIDE); exit $$((fast + real)),exit $$fast)

.PHONY: docs
docs: $(STAMP) ## Build the site into build/site; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: reference
reference: $(STAMP) ## Make docs/reference, and the table of rules in docs/testing.md, again from the code
	$(BIN)/python -m docs.generator
	$(BIN)/python -m tests.specification.listing

.PHONY: picture
picture: $(STAMP) ## Record the demo again as docs/demo.svg
	$(BIN)/python -m docs.generator.picture

N ?= 1000
WORLDS ?= 100000
JOBS ?= $(shell nproc)

.PHONY: differential
differential: $(STAMP) oracle celjudge worlds ## Compare N=1000 fresh random snapshots, and ten times as many selectors, with kube-scheduler's plugins, and worlds with brute force
	$(BIN)/python -m tests.differential -n $(N)
	$(BIN)/python -m tests.differential.cel $(N)0

.PHONY: worlds
worlds: $(STAMP) ## Put gang preemption beside brute force in WORLDS=100000 worlds, in JOBS processes (half an hour of CPU)
	$(BIN)/python -m tests.differential.gang_preemption $(WORLDS) --jobs $(JOBS)
	$(BIN)/python -m tests.differential.gang_preemption $$(($(WORLDS) / 20)) --jobs $(JOBS) --many

SECONDS ?= 600
SEED ?= 1

.PHONY: swarm
swarm: $(STAMP) ## Play random whole worlds with faults for SECONDS=600, from SEED=1 on; keeps those that violate anything in build/swarm
	$(BIN)/python -m tests.swarm --seconds $(SECONDS) --seed $(SEED) --keep build/swarm

.PHONY: shrink
shrink: $(STAMP) ## Cut each world that swarm kept down to what it takes, within SECONDS=600, into build/swarm/cases
	$(BIN)/python -m tests.swarm.shrink --seconds $(SECONDS) --to build/swarm/cases build/swarm/*.yaml

RUNS ?= 1000000

.PHONY: fuzz
fuzz: $(STAMP) ## Fuzz readers, decoders and whole objects with RUNS=1000000 inputs, guided by coverage (an hour)
	$(BIN)/pip install -q --require-hashes -r requirements-fuzz.lock
	$(BIN)/python -m tests.fuzz --runs $(RUNS)

PACKAGES ?=

.PHONY: mutants
mutants: $(STAMP) ## Change the source in small ways, and see whether tests notice (PACKAGES="readers quota"; hours)
	$(BIN)/pip install -q --require-hashes -r requirements-mutants.lock
	$(BIN)/python -m tests.mutants $(PACKAGES)

BUGS ?=

.PHONY: seeded-bugs
seeded-bugs: $(STAMP) ## Put bugs back, one at a time, and see whether tests notice (BUGS="name name"; half an hour)
	$(BIN)/python -m tests.seeded_bugs $(BUGS)

.PHONY: corpus
corpus: $(STAMP) oracle celjudge ## Ask kube-scheduler's plugins again about the conformance corpora and the recorded selectors
	$(BIN)/python -m tests.differential.corpus
	$(BIN)/python -m tests.differential.cel.recorded

.PHONY: bench
bench: $(STAMP) controlplane stubserver ## Measure against kube-scheduler on the real control plane (25 minutes)
	$(BIN)/python -m tests.benchmarks.bench_throughput --nodes 1000 --gangs 250 10 5000
	$(BIN)/python -m tests.benchmarks.bench_throughput --nodes 5000 --gangs 250 10 5000
	$(BIN)/python -m tests.benchmarks.bench_live own
	$(BIN)/python -m tests.benchmarks.bench_live arrivals
	$(BIN)/python -m tests.benchmarks.bench_live claims
	$(BIN)/python -m tests.benchmarks.bench_live start
	$(BIN)/python -m tests.benchmarks.bench_one_leader
	$(BIN)/python -m tests.benchmarks.bench_affinity
	$(BIN)/python -m tests.benchmarks.bench_preemption --real
	$(BIN)/python -m tests.benchmarks.bench_gangs
	$(BIN)/python -m tests.benchmarks.bench_classes
	$(BIN)/python -m tests.benchmarks.bench_claims
	$(BIN)/python -m tests.benchmarks.bench_churn
	$(BIN)/python -m tests.benchmarks.bench_start
	$(BIN)/python -m tests.benchmarks.bench_large gang
	$(BIN)/python -m tests.benchmarks.bench_large reclaim
	$(BIN)/python -m tests.benchmarks.bench_reclaim
	$(BIN)/python -m tests.benchmarks.bench_objects --over 100
	$(BIN)/python -m tests.benchmarks.bench_memory
	$(BIN)/python -m tests.benchmarks.bench_slices

.PHONY: bench-long
bench-long: $(STAMP) controlplane ## Measure the core at the largest sizes: a million nodes, 39,000 victims, curves (an hour, 16 GiB)
	$(BIN)/python -m tests.benchmarks.bench_classes --curve --svg docs
	$(BIN)/python -m tests.benchmarks.bench_start --pods 150000
	$(BIN)/python -m tests.benchmarks.bench_live start --pods 150000
	$(BIN)/python -m tests.benchmarks.bench_throughput --nodes 100000
	$(BIN)/python -m tests.benchmarks.bench_large victims
	$(BIN)/python -m tests.benchmarks.bench_large million
