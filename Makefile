# Two commands: `make demo` and `make test`. Each does its own set-up; a second run installs nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
CORE := $(VENV)/.installed
DEV := $(VENV)/.installed-dev

PAGE := page/node_modules/.installed

.PHONY: adapters bench benchmark browser clean demo dist docs everywhere faults format fuzz help install lint notebooks page reproduce soak tables test

help:
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch goes first and alone: with 2.13.0 in place every looser request for it is already met.
$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing nearer into $(VENV) (about two minutes the first time)"
	@$(PIP) torch
	@$(PIP) --editable '.[plot,search]'
	@touch $@

$(DEV): $(CORE) papers/pyproject.toml
	@echo "Installing the test tools into $(VENV)"
	@$(PIP) --editable '.[dev]' --editable papers
	@touch $@

install: $(CORE) ## make .venv and install the library into it

demo: $(CORE) ## learn a metric for the digits from 10 labels per class; writes demo-report.html
	@$(BIN)/nearer demo --out demo-report.html

test: lint ## format and type checks, then the whole test suite
	@$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m 'not slow'

lint: $(DEV) ## ruff format and check, mypy --strict on src
	@$(BIN)/ruff format --check --quiet . || (echo "run 'make format'"; exit 1)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

format: $(DEV) ## reformat the code in place
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

adapters: $(DEV) ## test inside Lightning, transformers and sentence-transformers (installs them)
	@$(PIP) --editable '.[adapters]'
	@$(BIN)/python -m pytest tests/losses/test_adapters.py

faults: $(DEV) ## readers beside writers, kills, full disks: the long form (minutes); writes benchmarks/results/faults.json
	@NEARER_FAULTS=long $(BIN)/python -m pytest tests/faults

everywhere: $(DEV) ## the suite on other processors, users and moments, leg by leg (hours); goes on where it stopped
	@$(BIN)/python tests/everywhere.py $(EVERYWHERE)

soak: $(DEV) ## the service: an hour under load, 300 kills under writes, 20,000 fuzzed requests; writes benchmarks/results
	@NEARER_SERVER_KILLS=300 $(BIN)/python -m pytest tests/app/server/test_writes.py -k kill
	@NEARER_SERVER_FUZZ=20000 $(BIN)/python -m pytest tests/app/server/test_fuzz.py
	@$(BIN)/python benchmarks/speed/server.py --soak 3600

browser: $(DEV) ## test the explorer and every page of the site in Chromium, 100,000 points included (minutes); screenshots go to runs/screenshots
	@NEARER_BROWSER=long NEARER_SCREENSHOTS=runs/screenshots $(BIN)/python -m pytest tests/app/explorer tests/test_site.py

fuzz: $(DEV) ## 100,000 random cases over every public name (hours); writes benchmarks/results/fuzz.json
	@NEARER_FUZZ=100000 $(BIN)/python -m pytest tests/fuzz

reproduce: $(DEV) ## the slow experiments
	@$(BIN)/python -m pytest -m slow

bench: $(DEV) ## measure the speed figures again (about half an hour) and write their tables into the docs
	@for file in benchmarks/speed/*.py; do echo $$file; $(BIN)/python $$file || exit 1; done
	@$(MAKE) tables

benchmark: $(DEV) ## peers beside nearer, each in an environment of its own under build/peers; BENCHMARK=--quick is shorter
	@$(BIN)/python benchmarks/environments.py
	@$(BIN)/python benchmarks/speed/peer_learners.py $(BENCHMARK)
	@$(BIN)/python benchmarks/speed/peer_tasks.py $(BENCHMARK)
	@$(MAKE) tables

tables: $(DEV) ## write tables and figures of the docs from the result files, and the generated pages of the reference
	@$(BIN)/python benchmarks/tables
	@$(BIN)/python benchmarks/figures
	@$(BIN)/python docs/reference.py

docs: $(DEV) ## build the documentation site into build/site (a warning fails); look at it: python -m http.server -d build/site
	@$(BIN)/python -m pytest --quiet tests/test_docstrings.py  # a public name without settings or example fails the build
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

notebooks: $(DEV) ## the examples as notebooks with their output, in build/notebooks (minutes; installs nbclient)
	@$(PIP) nbclient ipykernel
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python docs/notebooks.py --execute

dist: ## sdist and wheel, checked, installed into a fresh environment and used there (minutes; uploads nothing)
	@$(PYTHON) deploy/distribution.py

$(PAGE): page/package.json page/package-lock.json
	@cd page && npm ci --silent && touch node_modules/.installed

page: $(PAGE) ## build the page of the explorer (TypeScript) into the package; needs Node.js
	@cd page && npm run --silent build

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
