# One Makefile for people and for continuous integration. Every target sets up what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Further arguments of pip, for instance an index with a CPU-only build of PyTorch.
PIP_FLAGS ?=
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) --constraint constraints.txt --editable

.PHONY: help env browser outside demo test test-unit test-portable test-all lint bench bench-scale bench-serve docs pictures reproduce clean
help:
	@echo "make demo      set up and show LEPORID against random initial embeddings, on MovieLens-100K"
	@echo "make test      set up and run the fast tests"
	@echo "make test-unit those of them that start no command, process or service"
	@echo "make test-portable  the fast tests under other processors, orders and loads"
	@echo "make test-all  also the slow tests and those on real data"
	@echo "make lint      ruff, mypy --strict, the import contracts, and no file of outcomes changed"
	@echo "make bench     speed against peers, as ratios in one run"
	@echo "make bench-scale  growth from 50,000 to a million users (half an hour)"
	@echo "make bench-serve  the service under load, on loopback"
	@echo "make docs      build the documentation into site/, warnings are errors"
	@echo "make reproduce the paper's tables and figures from results/ as one page (reports/)"
	@echo "make pictures  draw the pictures of README and pages from the records, and photograph the pages"
	@echo "make clean     remove what the other targets made"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) '.[dev,docs]'
	touch $@ $(VENV)/.demo-ready

# What the demonstration needs, without the test tools and the peers.
$(VENV)/.demo-ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "setting up $(VENV) (once; PyTorch is a large download)"
	$(INSTALL) '.[torch,serve]'
	touch $@

env: $(VENV)/.ready

demo: $(VENV)/.demo-ready
	$(BIN)/python -m examples.demo --output demo

# Tests come in random order, whose seed is printed, on two processes.
test: env outside
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-unit: env outside
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow and not functional'

# The same as other machines would run them; ROUNDS=3 runs every row three times.
ROUNDS ?= 1
test-portable: env outside
	$(BIN)/python -m tests.portable --rounds $(ROUNDS) -- -n 2 --dist worksteal

# Debian's browser for the tests of the pages, and its PostgreSQL for those of the event store;
# axe-core, which checks that everybody can use the pages, from npm.
AXE := $(abspath $(VENV))/axe/package/axe.min.js
browser:
	@command -v chromium > /dev/null && ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get update -qq && \
	  apt-get install -y -qq chromium postgresql > /dev/null; } || \
	echo "could not install chromium and postgresql: tests that need them will be skipped"
	@[ -f $(AXE) ] || { mkdir -p $(VENV)/axe && cd $(VENV)/axe && npm pack --silent axe-core > /dev/null && \
	  tar xzf axe-core-*.tgz; } || echo "could not fetch axe-core: tests that need it will be skipped"

# The systems that models are exported to, and an S3 to read from. Pinned in constraints.txt they go
# together with the rest: nothing is downgraded, and installing them takes half a minute. They are no
# part of `dev`, since pgserver has no wheel for Python 3.13: where they cannot all be installed, each
# is tried by itself, now and the next time.
outside: $(VENV)/.outside-ready

$(VENV)/.outside-ready: $(VENV)/.ready
	@echo "installing faiss, Qdrant, moto and pgserver into $(VENV) (once)"
	@$(INSTALL) '.[faiss,qdrant,moto]' pgserver && touch $@ || { \
	for extra in faiss qdrant moto; do $(INSTALL) ".[$$extra]" || \
	echo "could not install $$extra: tests that need it will be skipped"; done; \
	$(INSTALL) . pgserver || echo "could not install pgserver: tests that need it will be skipped"; }

test-all: env browser outside
	if [ -f $(AXE) ]; then export LEPORID_AXE=$(AXE); fi; $(BIN)/python -m pytest -m ''

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.readability
	$(BIN)/python -m reproduction.check_outcomes

bench-scale: env
	$(BIN)/python -m benchmarks scale

bench: env
	$(BIN)/python -m benchmarks

bench-serve: env
	$(BIN)/python -m benchmarks serve

pictures: env
	$(BIN)/python docs/make_pictures.py
	$(BIN)/python -m docs.make_screenshots build/pictures

# Others by name: $(BIN)/python -m reproduction
reproduce: env
	$(BIN)/python -m reproduction report --dataset ml-1m-r3

docs: env
	$(BIN)/python docs/make_pages.py
	$(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

clean:
	rm -rf $(VENV) build dist site demo .mypy_cache .ruff_cache .pytest_cache
