# make demo, make test, make lint, make bench, make docs: each sets up .venv first. Only Python 3.11, make and a C compiler are needed.
# TORCH_INDEX=URL takes torch from that package index (PyTorch's own, for its CPU build) instead of the ordinary one.
# LOCKED=1 installs the versions of requirements.lock, each file checked by its hash; else the newest that fit.
PYTHON ?= python3
TORCH_INDEX ?=
LOCKED ?=
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
EXTRAS := dev docs word2vec demo serve tensorboard

.PHONY: demo test lint bench docs results lock clean

.venv/installed: pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -m venv .venv
	$(if $(TORCH_INDEX),$(PIP) --constraint constraints.txt --index-url $(TORCH_INDEX) torch)
	$(if $(LOCKED),$(PIP) --no-deps --require-hashes --requirement requirements.lock)
	$(if $(LOCKED),$(PIP) --constraint constraints.txt torch)
	$(if $(LOCKED),$(PIP) --no-deps --no-build-isolation --editable .)
	$(if $(LOCKED),,$(PIP) --constraint constraints.txt --editable '.[dev,docs,word2vec,demo,serve,tensorboard]')
	touch $@

demo: .venv/installed
	$(BIN)/trf demo --out demo

test: .venv/installed
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

bench: .venv/installed
	$(BIN)/python benchmarks/potential.py --quick
	$(BIN)/python benchmarks/augsa_step.py --quick
	$(BIN)/python benchmarks/cloze_step.py --quick
	$(BIN)/python benchmarks/rescoring.py --quick
	$(BIN)/python benchmarks/serve.py --quick

docs: .venv/installed
	$(BIN)/python docs/write_pages.py
	$(BIN)/python docs/write_results.py
	$(BIN)/mkdocs build --quiet --strict

results: .venv/installed
	$(BIN)/python docs/write_results.py

# Needs uv (pip install uv). The head of requirements.lock says what is left out, and why.
lock:
	(head -3 requirements.lock; printf 'hatchling\neditables\n' | uv pip compile pyproject.toml - $(EXTRAS:%=--extra %) --quiet \
		--constraint constraints.txt --generate-hashes --universal --python-version 3.11 --no-annotate --no-header \
		| awk '/^[a-z]/ { keep = !/^(torch==|triton==|nvidia-|cuda-)/ } keep') > .lock
	mv .lock requirements.lock

clean:
	rm -rf .venv demo site .pytest_cache .ruff_cache
