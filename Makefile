# One Makefile for people and for continuous integration. Every target sets up what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help env test test-all lint bench clean
help:
	@echo "make test      set up and run the fast tests"
	@echo "make test-all  also the slow tests and those on real data"
	@echo "make lint      ruff and mypy --strict"
	@echo "make bench     speed against peers, as ratios in one run"

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

env: $(VENV)/.ready

test: env
	$(BIN)/python -m pytest

test-all: env
	$(BIN)/python -m pytest -m ''

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: env
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
