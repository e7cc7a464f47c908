# make demo: compile and run the main models. make test: everything that CI checks.
# make bench-compare BASE=COMMIT: what has become slower since a commit.
# make quick: most of its tests, in two minutes, for people at work.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Without what Python keeps of modules each process of a test would compile them anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test run-tests quick lint bench bench-compare bench-forms docs clean

# Everything is installed into a local environment, anew when its needs change. Of the
# modules of others few are imported, and these are compiled then.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -c "import sys; assert sys.version_info >= (3, 11), sys.version"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --editable ".[dev]"
	touch $@

# The demo needs a third of what tests do, and few of the modules that it installs.
$(VENV)/demo: pyproject.toml
	$(PYTHON) -c "import sys; assert sys.version_info >= (3, 11), sys.version"
	test -e $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --editable ".[demo]"
	touch $@

demo: $(VENV)/demo
	$(BIN)/python examples/demo.py

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(CURDIR)/$(BIN):$$PATH" nice $(BIN)/basedpyright --project .src

# Types take one processor, for a while: they are checked beside the tests.
test: $(VENV)/installed
	$(MAKE) --jobs=2 lint run-tests

run-tests: $(VENV)/installed
	$(BIN)/lit -v --time-tests test
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder

# All text tests, and a case of each test of Python that takes less than a second.
quick: $(VENV)/installed
	$(BIN)/lit -q test
	$(BIN)/pytest -q --quick -n 2 --dist worksteal

# The generated pages, and the output of the commands that documents show.
docs: $(VENV)/installed
	$(BIN)/python -m penstock.tools.reports.docs docs
	RENEW_DOCUMENTS=1 $(BIN)/pytest -q test/unit/tools/reports/test_docs.py -k shows_what_happens

bench: $(VENV)/installed
	$(BIN)/pip install --quiet --editable ".[bench]" \
		--extra-index-url https://download.pytorch.org/whl/cpu
	$(BIN)/python benchmarks/run.py

# Ops and models of this checkout and of a commit, in turns; fails on what is slower.
bench-compare: $(VENV)/installed
	$(BIN)/python benchmarks/versions.py $(BASE) --only ops --only models \
		--only accuracy --threads 1,2 --fail

# The kernels of whole models, and how many of them are compiled.
bench-forms: $(VENV)/installed
	$(BIN)/python benchmarks/forms.py

clean:
	rm -rf $(VENV) build dist *.egg-info .src/*.egg-info test/.lit
