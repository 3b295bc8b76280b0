# make demo | test | test-torch | quick | attack | sanitize | lint | types | layers | docs | pictures | package | bench
#
# Each sets up its virtual environment first, once: .venv with the newest torch and torchvision, or, with TORCH=2.13.0,
# .venv-2.13.0 with that torch, and the torchvision that goes with it where one loads beside it; ALONE=1 leaves it out.
# PYTHON=python3.13 sets up .venv-python3.13 with that Python. VENVS is the folder of environments, and EXTRAS are
# opbridge's extras in them.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
TORCH ?=
ALONE ?=
VENVS ?= .
EXTRAS ?= dev
PYTEST_ARGS ?=
# The processes of pytest: one for each core, and one more, because some tests wait for processes that they start, but for
# the quick tests, because each process takes twelve seconds to collect. WORKERS=0 runs all tests in one process, as a
# debugger needs.
WORKERS ?=
CORES := $(shell getconf _NPROCESSORS_ONLN)
MORE_THAN_CORES := $(shell expr $(CORES) + 1)

# Tests start hundreds of processes of Python: where bytecode is not written, each compiles opbridge again.
unexport PYTHONDONTWRITEBYTECODE

VENV := $(VENVS)/.venv$(addprefix -,$(TORCH))$(if $(ALONE),-alone)

ifneq ($(origin PYTHON),file)
VENV := $(VENV)-$(notdir $(PYTHON))
endif

BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPEC := examples/deform_net.py:build
MODEL := build/deform.onnx

CPP_FILES := git ls-files '*.cpp' '*.h' '*.cu'
CXX_WARNINGS := -std=c++17 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Werror -Isrc/opbridge/kernels/include

.PHONY: demo environment test test-torch quick attack sanitize lint format types layers docs pictures package bench clean

environment: $(READY)

demo: $(READY)
	@mkdir -p $(dir $(MODEL))
	$(BIN)/opbridge check $(SPEC)
	$(BIN)/opbridge export $(SPEC) -o $(MODEL)
	$(BIN)/opbridge verify $(MODEL) $(SPEC)

# Half of the tests marked slow, which --seed chooses; PYTEST_ARGS=--other-half are the rest. All of them, and those marked
# thorough: PYTEST_ARGS=--thorough.
test: $(READY)
	$(BIN)/python -m pytest -n $(or $(WORKERS),$(MORE_THAN_CORES)) --dist worksteal $(PYTEST_ARGS)

# What may depend on the release of torch, with half of the slow tests, and of all other tests that are neither slow nor
# long the first row: for TORCH=2.13.0.
test-torch: $(READY)
	$(BIN)/python -m pytest --touching-torch -n $(or $(WORKERS),$(MORE_THAN_CORES)) --dist worksteal $(PYTEST_ARGS)

# An answer within a minute on two cores, with the built-in kernels compiled: of every area, half of the tests that are
# marked neither slow nor long, which --seed chooses, with the first row of each, and the export and verification of five
# whole models; PYTEST_ARGS=--other-half are the other tests. Mark a new test slow where one row takes more than a fifth
# of a second.
quick: $(READY)
	$(BIN)/python -m pytest --quick -n $(or $(WORKERS),$(CORES)) --dist worksteal $(PYTEST_ARGS)

# The campaigns of tests/attack: an hour in all, written to bench/RESULTS.md. SECONDS=60 is for a look, EACH=60 gives each
# campaign as much, CAMPAIGNS="crowds damaged_files" runs only these, and RESULTS= writes nothing.
CAMPAIGNS ?=
SECONDS ?= 3600
EACH ?=
RESULTS ?= bench/RESULTS.md
attack: $(READY)
	PYTHONPATH=src:tests $(BIN)/python -m attack --seconds $(SECONDS) $(if $(EACH),--each $(EACH)) $(CAMPAIGNS:%=--only %) $(if $(RESULTS),--results $(RESULTS))

# The tests of kernels with every library built with sanitizers: address,undefined, or thread. SANITIZE_ARGS="FILE -k NAME" chooses some.
SANITIZERS ?= address,undefined
SANITIZE_ARGS ?=
sanitize: $(READY)
	PYTHONPATH=src:tests $(BIN)/python tests/kernels/under_sanitizers.py $(SANITIZERS) $(SANITIZE_ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(CPP_FILES) | xargs $(BIN)/clang-format --dry-run --Werror
	git ls-files 'src/*.cpp' 'tests/*.cpp' 'examples/*.cpp' ':!src/opbridge/kernels/openvino' | xargs -P 2 -n 1 $(CXX) $(CXX_WARNINGS)
	@! git ls-files tests | grep -o 'test_[^/]*[.]py$$' | sort | uniq -d | sed 's/^/two files of tests have one name: /' | grep .

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(CPP_FILES) | xargs $(BIN)/clang-format -i

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

# The pages of docs/ and the API reference as a site, in build/site; a link that leads nowhere is an error.
docs: $(VENV)/.docs-ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The pictures of README.md and docs/: pages of real runs, photographed in the system's chromium. Takes some minutes.
pictures: $(READY)
	$(BIN)/python docs/pictures/draw.py
	PYTHONPATH=tests $(BIN)/python docs/pictures/photograph.py

# The sdist and the wheel, in dist; the wheel is run in an environment without a compiler.
package: $(READY)
	PYTHON=$(BIN)/python .ci/wheels

bench: $(READY)
	$(BIN)/python bench/export_time.py
	$(BIN)/python bench/captures.py
	$(BIN)/python bench/latency.py
	$(BIN)/python bench/functions.py
	$(BIN)/python bench/kernels.py
	$(BIN)/python bench/aten.py
	$(BIN)/python bench/coverage.py build/coverage
	$(BIN)/python bench/pages.py

clean:
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache

# The stamp is written last, so that a set-up that was interrupted is taken up again.
$(READY): pyproject.toml
	.ci/environment $(PYTHON) $(VENV) $(EXTRAS) $(TORCH) $(if $(ALONE),alone)
	touch $@

$(VENV)/.docs-ready: $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@
