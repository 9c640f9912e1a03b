# make sweep runs the main job on this machine, make test the tests. Both do all the set-up they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SWEEP ?= sweeps/laptop.yaml
STAMP := $(VENV)/.installed
# Tests of the system wait for most of their time: three at once keep two cores busy.
AT_ONCE ?= -n 3 --dist load --maxschedchunk 1
# The others compute: one for each core, and at most four.
TEST_AT_ONCE ?= -n logical --maxprocesses 4 --dist worksteal

.PHONY: help venv sweep test test-system test-recipe test-engine check fix audit schema clean

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## venv         the environment in .venv, from pyproject.toml
venv: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "harness needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

## sweep        launch, measure and report sweeps/laptop.yaml (SWEEP=FILE for another)
sweep: venv
	$(BIN)/harness sweep $(SWEEP)

## test         the tests of a user's clone: no root, no packages, no engine
test: venv
	$(BIN)/python -m pytest -m "not system and not engine" $(TEST_AT_ONCE)

## test-system  root: kill points, fuzzing, Chromium (install the packages that .ci/run names)
test-system: venv
	$(BIN)/python -m pytest -m system $(AT_ONCE)

## test-recipe  root: the public recipe's own scripts on two hosts (HARNESS_DSPARK_CHECKOUT=its folder)
test-recipe: venv
	@test -n "$(HARNESS_DSPARK_CHECKOUT)" || { echo "name a checkout: make $@ HARNESS_DSPARK_CHECKOUT=FOLDER"; exit 2; }
	HARNESS_DSPARK_CHECKOUT="$(HARNESS_DSPARK_CHECKOUT)" $(BIN)/python -m pytest -m recipe_checkout $(AT_ONCE)

## test-engine  a real vLLM on the processor; installs it on first use (3.4 GB)
test-engine: venv
	$(BIN)/python -m pytest -m engine

## check        style, types and layers, as CI runs them
check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

## fix          what ruff can mend by itself
fix: venv
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

## schema       write schemas/ from the models
schema: venv
	$(BIN)/harness schema --write schemas

## audit        known vulnerabilities in the installed packages
audit: venv
	$(BIN)/pip-audit --skip-editable

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
