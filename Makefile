# Everything sets itself up in .venv; a Debian or Ubuntu machine with python3 (3.11 or newer), g++ and make will do.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := dev,gguf,bench,sim,trace
SOURCES := $(shell git ls-files 'drivers/native/*' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help build build-rtl demo test test-slow lint lint-python lint-native lint-rtl synth formal bench bench-score bench-drive bench-decode bench-beta bench-policies clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: $(VENV)/.built ## set up .venv and build the native code

$(VENV)/bin/activate:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "error: nearkv needs python3 3.11 or newer ($(PYTHON) is $$($(PYTHON) --version 2>&1)): install it, or name one with PYTHON=python3.12" >&2; exit 1; }
	@command -v g++ >/dev/null || { echo "error: g++ is missing: apt-get install g++" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "error: python3's venv module is missing: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sysconfig, pathlib, sys; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' \
	  || { echo "error: Python's headers are missing: apt-get install python3-dev" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/.installed: $(VENV)/bin/activate pyproject.toml constraints.txt
	$(BIN)/pip install --quiet -c constraints.txt scikit-build-core nanobind cmake ninja
	$(BIN)/pip install --quiet -c constraints.txt --no-build-isolation -e '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.built: $(VENV)/.installed CMakeLists.txt $(SOURCES)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

build-rtl: build ## build the Verilated kernel that `rtl:` devices run, ahead of the first one
	$(BIN)/python -m nearkv_drivers.rtl_build

demo: build ## find a needle in a long text, dense and through nearkv, and compare the two
	$(BIN)/nearkv demo --json build/demo.json

test: build lint ## lint and the test suite, without the slow part
	$(BIN)/python -m pytest -m "not slow"

test-slow: build ## the slow part of the suite: the RTL's code coverage, kernels from elsewhere, the needle through a card, long proofs
	$(BIN)/python -m pytest -m slow

lint: build lint-python lint-native lint-rtl ## ruff, mypy, import contracts, clang-format, verilator

lint-python: build
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

lint-native: build
	$(BIN)/clang-format --dry-run -Werror $$(git ls-files '*.cpp' '*.hpp' '*.h' '*.inl')

lint-rtl: build
	$(BIN)/python -m nearkv_sim.lint

synth: build ## estimate the RTL kernel's area beside a SmartSSD's FPGA; writes build/synth/utilisation.json
	$(BIN)/python fpga/synth/estimate.py

formal: build ## run every proof of the RTL's properties, one line each
	$(BIN)/python -m nearkv_sim.formal

bench: bench-score bench-drive bench-decode bench-beta ## every benchmark; results in build/bench

bench-score: build ## native scorer beside read bandwidth, torch._int_mm and faiss
	$(BIN)/python bench/score.py --json build/bench/score.json

bench-drive: build ## drive reads by size and batch
	$(BIN)/python bench/drive.py --json build/bench/drive.json

bench-beta: build ## host and drive scoring at once, at simulated bandwidths: do they finish together?
	$(BIN)/python bench/beta.py --json build/bench/beta.json

bench-policies: build ## every placement policy in a running cache, on the demo's text at 8 K
	$(BIN)/python bench/live_policies.py smollm2-135m-instruct host/nearkv/demo/text.txt --json build/bench/policies.json

bench-decode: build ## decode speed from 4 K to 32 K tokens beside a dense StaticCache
	$(BIN)/python bench/decode.py --json build/bench/decode.json

clean: ## remove .venv and build
	rm -rf $(VENV) build
