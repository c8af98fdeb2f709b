# Every target builds the environment it needs in .venv, with the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
# Python compiles what it imports; compiling all that is installed takes half a minute more.
PIP := --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# Tests run one process a core; each computes on one thread, so that they do not fight over cores.
ONE_THREAD := XLA_FLAGS="--xla_cpu_multi_thread_eigen=false" OMP_NUM_THREADS=1
# Short tests spend their time compiling, not computing: a lazy compiler saves a third of it.
QUICK := XLA_FLAGS="--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=0" OMP_NUM_THREADS=1

.PHONY: demo test test-slow lint bench bench-scaling numbers docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       train LEAP on the bundled data, write leapcde-demo/report.html (about 3 minutes)"
	@echo "make test       all tests but the slow ones, linters and types"
	@echo "make test-slow  minutes of training on real data (needs LEAPCDE_DATA or ../shared/data)"
	@echo "make lint       ruff and pyright"
	@echo "make bench      speed and memory, side by side with torchcde, Diffrax and eager PyTorch (long)"
	@echo "make bench-scaling  how cost grows with length, batch, channels and size (minutes)"
	@echo "make numbers    write the records of results/ into README, docs/results.md and results/standard/report.html"
	@echo "make docs       the guide and the API reference as pages in site/"
	@echo "make clean      remove the environment and caches"

.venv/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install $(PIP) --editable '.[dev]'
	touch $@

demo: .venv/.dev
	$(BIN)/leapcde demo --out leapcde-demo

test: .venv/.dev lint
	$(QUICK) $(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: .venv/.dev
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 -m slow --durations=0

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

numbers: .venv/.dev
	$(BIN)/python -m leapcde_paper.docs_numbers
	$(BIN)/leapcde report results/standard --out docs/results.md
	$(BIN)/leapcde report results/standard

docs: .venv/.dev
	$(BIN)/python -m pip install $(PIP) --editable '.[docs]'
	$(BIN)/python -m mkdocs build --strict

# The libraries that are compared with: PyTorch is large, so only this target installs it.
.venv/.bench: .venv/.dev
	$(BIN)/python -m pip install $(PIP) --editable '.[bench]'
	touch $@

bench: .venv/.bench
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/plot.py

bench-scaling: .venv/.dev
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/plot.py

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis
