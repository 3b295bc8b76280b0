# make demo | test | lint | types | package | bench
#
# Each sets up its virtual environment first, once: .venv with the newest torch and torchvision, or, with TORCH=2.13.0,
# .venv-2.13.0 with that torch and no torchvision (there is no CPU build of it to go with a given torch).

PYTHON ?= $(shell command -v python3.11 || command -v python3)
TORCH ?=
PYTEST_ARGS ?=

ifeq ($(TORCH),)
VENV := .venv
TORCH_PACKAGES := torch torchvision
MARKS :=
else
VENV := .venv-$(TORCH)
TORCH_PACKAGES := torch==$(TORCH)
MARKS := -m "not torchvision"
endif

BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPEC := examples/deform_net.py:build
MODEL := build/deform.onnx

CPP_FILES := git ls-files '*.cpp' '*.h'
CXX_WARNINGS := -std=c++17 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Werror -Isrc/opbridge/kernels/include

.PHONY: demo test lint format types package bench clean

demo: $(READY)
	@mkdir -p $(dir $(MODEL))
	$(BIN)/opbridge check $(SPEC)
	$(BIN)/opbridge export $(SPEC) -o $(MODEL)
	$(BIN)/opbridge verify $(MODEL) $(SPEC)

test: $(READY)
	$(BIN)/python -m pytest $(MARKS) $(PYTEST_ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(CPP_FILES) | xargs $(BIN)/clang-format --dry-run --Werror
	git ls-files 'src/*.cpp' 'tests/*.cpp' 'examples/*.cpp' | xargs -P 2 -n 1 $(CXX) $(CXX_WARNINGS)

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(CPP_FILES) | xargs $(BIN)/clang-format -i

types: $(READY)
	$(BIN)/mypy

package: $(READY)
	$(BIN)/python -m build

bench: $(READY)
	$(BIN)/python bench/export_time.py
	$(BIN)/python bench/latency.py
	$(BIN)/python bench/functions.py
	$(BIN)/python bench/kernels.py
	$(BIN)/python bench/aten.py
	$(BIN)/python bench/coverage.py build/coverage

clean:
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache

# The stamp is written last, so that a set-up that was interrupted is taken up again.
$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(TORCH_PACKAGES)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@
