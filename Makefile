# Everything a person types: demo, test, lint; `make help` lists it. Needs a Python of 3.11 or newer, nothing else.
# PYTHON chooses another interpreter, ARGS is passed on: make demo ARGS=--exit, make test ARGS="tests/occ -x".

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
# Each stamp is newer than pyproject.toml while its extras are installed.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The interpreters of pyenv, if there is one: tox does not look behind its shims.
PYENV = $$(for bin in "$$(pyenv root 2>/dev/null)"/versions/3.1[1-3].*/bin; do [ -d "$$bin" ] && printf '%s:' "$$bin"; done)

.DEFAULT_GOAL := help
.PHONY: help demo test browser newcomer coverage mutants django-suite bench matrix lint format docs services clean

help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(VENV)/.demo  ## Run the race: web server, worker, beat, reconcilers, people (ARGS=--exit ends after the table)
	@$(BIN)/python manage.py demo $(ARGS)

# The browser has a process of its own: Playwright leaves an event loop running, under which asyncio tests cannot start.
test: $(VENV)/.test  ## Run the tests on SQLite (or DATABASE_URL), in parallel, and say what was skipped
	@$(BIN)/python -m pytest --numprocesses auto --dist loadgroup -m "not browser" $(ARGS)
	@echo "The browser tests run by themselves: make browser"

browser: $(VENV)/.test  ## Run the browser tests in Debian's Chromium
	@$(BIN)/python -m pytest tests/browser $(ARGS)

newcomer: $(VENV)/.dev  ## Build wheel and sdist, and follow README and tutorial with the wheel alone, from empty folders
	@$(BIN)/python -m pytest --slow --durations 5 tests/packaging $(ARGS)

coverage: $(VENV)/.test  ## Run the tests and report which lines and branches of occ and reconcilers they missed
	@$(BIN)/python -m pytest --numprocesses auto --dist loadgroup -m "not browser" --cov --cov-report term $(ARGS)

mutants: $(VENV)/.test  ## Put small faults into the guard, the retry and the queue, one by one; list those no test noticed
	@$(BIN)/python -m tests.mutation $(ARGS)

django-suite: $(VENV)/.test  ## Run Django's own tests with every model optimistic-locked (ARGS=--quick, ARGS="delete basic --show")
	@$(BIN)/python -m tests.django_suite $(ARGS)

bench: $(VENV)/.bench  ## Measure everything and draw it (ARGS=--quick only shows that it runs; ARGS="saves hot_key")
	@$(BIN)/python -m benchmarks $(ARGS)

matrix: $(VENV)/.dev  ## Run the suite on the oldest and the newest Python and Django, and a smoke run between
	@PATH="$(PYENV)$$PATH" $(BIN)/tox run $(ARGS)

lint: $(VENV)/.dev  ## Run ruff, mypy, pyright and the import rule
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/lint-imports

format: $(VENV)/.dev  ## Format the code and repair what ruff can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(VENV)/.dev  ## Build the documentation into docs/_build/html; warnings are errors
	@$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --fresh-env --write-all --builder html docs docs/_build/html $(ARGS)
	@echo "docs/_build/html/index.html"

services:  ## Install and start PostgreSQL, MariaDB, Redis and RabbitMQ on this Debian machine (as root)
	@.ci/services

clean:  ## Remove the virtual environment and the run directory
	rm -rf $(VENV) .run .tox docs/_build

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "Error: $(PYTHON) is missing or older than 3.11: install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "Error: $(PYTHON) cannot make virtual environments: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.python pyproject.toml
	@echo "Installing what the demo needs into $(VENV) ..."
	@$(INSTALL) --editable '.[demo]'
	@touch $@

$(VENV)/.test: $(VENV)/.python pyproject.toml
	@echo "Installing what the tests need into $(VENV) ..."
	@$(INSTALL) --editable '.[test]'
	@touch $@

$(VENV)/.bench: $(VENV)/.python pyproject.toml
	@echo "Installing what the measurements need into $(VENV) ..."
	@$(INSTALL) --editable '.[bench]'
	@touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml
	@echo "Installing what the linters and the version matrix need into $(VENV) ..."
	@$(INSTALL) --editable '.[dev]'
	@touch $@
