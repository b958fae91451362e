# The front door. `make` builds; `make help` lists the rest. Each step prints one line when it succeeds and
# its whole output when it fails; V=1 shows everything as it happens.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: build help demo demo-llm wheel test test-python levels test-ranks check-deep sanitizers test-clients test-engines fuzz bench format clean distclean install

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
step := scripts/step

build: ## build/microscale, optimized (the default)
	@scripts/bootstrap build
	@scripts/configure build
	@$(step) "build the program" cmake --build build --target microscale_cli -j $(JOBS)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## quantize a real language model to NVFP4, verify it, show what it cost and what it says
	@scripts/bootstrap build
	@scripts/configure demo
	@$(step) "build the program" cmake --build build --target microscale_cli -j $(JOBS)
	@scripts/demo

demo-llm: ## what NVFP4 costs that model in words, and its tokens a second beside BF16 (installs torch: 2 to 6 GB)
	@scripts/bootstrap build
	@scripts/configure demo
	@$(step) "build the program" cmake --build build --target microscale_cli -j $(JOBS)
	@JOBS=$(JOBS) scripts/demo_llm

test: ## build everything, run the tests, the example, README's commands and the guards
	@scripts/bootstrap build test format
	@JOBS=$(JOBS) scripts/run_tests

wheel: build ## build/wheel/microscale-*.whl, the Python package, of what `make` has built
	@JOBS=$(JOBS) scripts/make_wheel

test-python: build ## build the wheel, install it into an environment below .venv and run python/tests
	@JOBS=$(JOBS) scripts/test_python

levels: ## the kernels taught step by step (examples/levels), compiled and run on the emulator
	@scripts/bootstrap build test
	@JOBS=$(JOBS) scripts/run_levels

sanitizers: ## the tests of memory and threads under the sanitizers (check-deep runs all of them)
	@scripts/bootstrap build test
	@JOBS=$(JOBS) scripts/run_sanitizers subset

check-deep: ## the long checks: whole suite under the sanitizers, second compiler, long fuzzing, kill loops
	@scripts/bootstrap build test fuzz mpi
	@JOBS=$(JOBS) scripts/check_deep

test-ranks: ## quantize under mpirun (installs Open MPI)
	@scripts/bootstrap build mpi && scripts/test_ranks

test-engines: build ## llama.cpp and vLLM for the CPU run our files (compiles llama.cpp; ARGUMENTS="--text FILE")
	@scripts/test_engines/run.sh $(ARGUMENTS)

test-clients: build ## real readers of our files, and microscale.torch (installs torch: 2 to 6 GB)
	@scripts/test_clients/run.sh

fuzz: ## fuzz the parsers with libFuzzer, FUZZ_SECONDS=60 in all
	@scripts/bootstrap build fuzz
	@JOBS=$(JOBS) scripts/run_fuzz $(FUZZ_SECONDS)

bench: ## build the benchmarks and print their tables (1 GB buffers; a quiet machine; minutes)
	@scripts/bootstrap build bench
	@JOBS=$(JOBS) scripts/run_bench

format: ## clang-format every C++ source in place
	@scripts/bootstrap format
	@git ls-files -co --exclude-standard '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs clang-format -i

install: build ## the program, library and headers below PREFIX (/usr/local); DESTDIR is honoured
	@$(step) "build the libraries" cmake --build build --target microscale_ptx microscale_checkpoint -j $(JOBS)
	@cmake --install build --prefix "$(PREFIX)"

clean: ## remove the build folders
	@rm -rf build build-*

distclean: clean ## also remove the demo and the Python environments
	@rm -rf demo .venv
