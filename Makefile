# Every target builds the environment it needs in .venv, with the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
# Python compiles what it imports and keeps that, whatever the environment says: dozens of processes start in the tests, and
# each would compile all of JAX again. Compiling all that is installed takes half a minute more.
export PYTHONDONTWRITEBYTECODE :=
PIP := --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# Tests run one process a core; each computes on one thread, so that they do not fight over cores.
# (As cells of a sweep do: XLA compiles other programs, with other last bits, for other numbers of cores.)
ONE_THREAD := PJRT_NPROC=1 XLA_FLAGS="--xla_cpu_multi_thread_eigen=false" OMP_NUM_THREADS=1
# Short tests spend their time compiling, not computing: a lazy compiler that emits plain loops, in one piece, saves two
# thirds of it. `make test-slow` and users have the default one.
QUICK := XLA_FLAGS="--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1" OMP_NUM_THREADS=1

.PHONY: help demo test test-slow test-faults lint coverage bench bench-scaling numbers hashes docs clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/bin/python:
	$(PYTHON) -m venv .venv

# The demo needs the library and its pictures; nothing that developers need.
.venv/.demo: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install $(PIP) --editable '.[plot]'
	touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install $(PIP) --editable '.[dev]'
	touch $@

demo: .venv/.demo ## train LEAP+ on the bundled data, write leapcde-demo/report.html (about 3 minutes)
	$(BIN)/leapcde demo --out leapcde-demo

test: lint ## linters, types, import contracts, and all tests but the slow ones
	$(QUICK) $(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: .venv/.bench ## minutes of training on real data (needs LEAPCDE_DATA or ../shared/data)
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 -m slow --durations=0

test-faults: .venv/.dev ## kills, full disks and odd input for two hours; goes on with results/faults.json
	$(ONE_THREAD) $(BIN)/python tests/faults/campaign.py

lint: .venv/.dev ## ruff, pyright, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo --no-cache

coverage: .venv/.dev ## all tests but the slow ones, and the lines that none of them runs
	$(QUICK) $(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term --cov-report=html

# UMAP, for one figure, comes with what benchmarks need.
numbers: .venv/.bench ## write the records of results/ into README, docs and the report
	$(BIN)/python -m leapcde_paper.docs_numbers
	$(BIN)/python -m leapcde_paper.figures.readme_picture
	$(BIN)/python -m leapcde_paper.figures.time_picture
	$(BIN)/python -m leapcde_paper.figures.summary_picture
	$(BIN)/leapcde report results/standard --out docs/results.md
	$(BIN)/leapcde report results/standard

# All files of each version, so that it holds on every platform; torch, which only benchmarks need, has files of its own on many.
hashes: .venv/.dev constraints.txt ## write requirements-hashed.txt: the pinned versions with the SHA-256 of their files
	$(BIN)/python -m pip install --quiet uv
	grep -v '^torch' constraints.txt | $(BIN)/python -m uv pip compile - --quiet --generate-hashes --no-emit-index-url --no-header --no-annotate --no-deps --python-version 3.11.7 --output-file requirements-hashed.txt

docs: .venv/.dev ## the guide and the API reference as pages in site/
	$(BIN)/python -m mkdocs build --strict

# The libraries that are compared with, and UMAP: they are large, so only this target installs them.
.venv/.bench: .venv/.dev
	$(BIN)/python -m pip install $(PIP) --editable '.[bench,plot]'
	touch $@

bench: .venv/.bench ## speed and memory, side by side with torchcde, Diffrax and eager PyTorch (long)
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/plot.py

bench-scaling: .venv/.dev ## how cost grows with length, batch, channels and size (minutes)
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/plot.py

clean: ## remove the environment and caches
	rm -rf .venv .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* htmlcov site
