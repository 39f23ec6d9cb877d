# make demo, make test, make lint, make bench, make docs: each sets up .venv first. Only Python 3.11, make and a C compiler are needed.
# TORCH_INDEX=URL takes torch from that package index (PyTorch's own, for its CPU build) instead of the ordinary one.
PYTHON ?= python3
TORCH_INDEX ?=
BIN := .venv/bin

.PHONY: demo test lint bench docs clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(if $(TORCH_INDEX),$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --index-url $(TORCH_INDEX) torch)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,word2vec,demo]'
	touch $@

demo: .venv/installed
	$(BIN)/trf demo --out demo

test: .venv/installed
	$(BIN)/python -m pytest -n 2

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

bench: .venv/installed
	$(BIN)/python benchmarks/potential.py --quick
	$(BIN)/python benchmarks/augsa_step.py --quick
	$(BIN)/python benchmarks/cloze_step.py --quick
	$(BIN)/python benchmarks/rescoring.py --quick

docs: .venv/installed
	$(BIN)/python docs/write_pages.py

clean:
	rm -rf .venv demo .pytest_cache .ruff_cache
