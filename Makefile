# Start with `make demo` or `make test`. Each sets up .venv the first time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_OUT ?= runs/demo
# One thread for each test process, so that two processes do not compete for the cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
PYTEST_ARGS ?= -n 2

.PHONY: demo test lint types docs unit explore torture lock format clean

demo: $(VENV)/.installed
	$(BIN)/dessl demo --out $(DEMO_OUT)

test: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory -j2 lint types docs
	@$(MAKE) --no-print-directory unit

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

# --strict makes warnings errors, but --quiet would hide them from it. The variable silences an advertisement.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

unit: $(VENV)/.installed-dev
	$(PYTEST) $(PYTEST_ARGS)

# Property tests with new random examples each time. Add what they find to the tests as fixed cases.
explore: $(VENV)/.installed-dev
	$(PYTEST) $(PYTEST_ARGS) -m explore --hypothesis-profile explore

# Kills, other harm, interrupted starts and fuzzing, TORTURE seconds each. tests/torture/many.py runs
# one of them in many processes. The counts are added to
# benchmarks/results/torture.json and docs/reliability.md; an input that fails becomes a file of
# tests/torture/corpus. A short run without counts: pytest -m torture.
TORTURE ?= 300
SEED ?= $(shell date +%s)
torture: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/torture/kills.py --kills 1000 --seconds $(TORTURE) --seed $(SEED)
	OMP_NUM_THREADS=1 $(BIN)/python tests/torture/harm.py --seconds $(TORTURE) --seed $(SEED)
	OMP_NUM_THREADS=1 $(BIN)/python tests/torture/starts.py --seed $(SEED)
	OMP_NUM_THREADS=1 $(BIN)/python tests/torture/fuzz.py --seconds $(TORTURE) --seed $(SEED)
	$(BIN)/python tests/torture/counts.py

# What a release pins: run after a change of constraints.txt.
lock: $(VENV)/.installed-dev
	$(BIN)/python release/lock.py
	$(BIN)/python release/sbom.py

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis site

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "dessl needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.installed
