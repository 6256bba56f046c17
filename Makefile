# Each target is enough on a fresh checkout: what it needs is set up first. `make` alone lists them.
.DEFAULT_GOAL := help
.SUFFIXES:
.PHONY: help setup demo live test test-long test-page test-kafka test-s3 fuzz lint docs bench bench-peers clean

PYTHON := .venv/bin/python
# What the planners measure of this machine stays in the checkout.
export THALWEG_OPERATIONS := $(CURDIR)/.venv/operations.json

help:
	@echo "make demo         join three live streams at three sites on Spark, check the results, draw a picture"
	@echo "make live         the same at a page in the browser, for some minutes"
	@echo "make test         the tests that take minutes"
	@echo "make test-long    all tests: many kills, large random sweeps"
	@echo "make test-page    the live page in Chromium; as root it installs Debian's package if it is missing"
	@echo "make test-kafka   tests with a Kafka broker, which Maven gets"
	@echo "make test-s3      tests of runs in a bucket of an S3 server, with jars that Maven gets"
	@echo "make fuzz         look for input that makes a reader fail, MINUTES=10 unless given"
	@echo "make lint         the linters and the type checker"
	@echo "make docs         the documentation as a site, in build/site"
	@echo "make setup        only create .venv with what the others need"
	@echo "make bench        measure the join beside Spark's own cascade, and the planners"
	@echo "make bench-peers  measure Flink and DuckDB on the same data"
	@echo "make clean        remove what the others have made, .venv apart"

setup:
	@tools/setup.sh

demo: setup
	@$(PYTHON) -m thalweg demo --out demo-out

live: setup
	@$(PYTHON) -m thalweg demo --out demo-out --page --seconds 120

# Two at a time: each has a Spark session of its own, whose batches often wait.
PYTEST := $(PYTHON) -m pytest -n 2

# The first failure ends it; the last line is pytest's own.
test: setup
	@$(PYTEST) --dist loadfile -x -m "not long"

test-long: setup
	@$(PYTEST) --dist worksteal -m "long or not long"

# PICTURES is a folder for the pictures in the documentation.
PICTURES :=
test-page: setup
	@tools/chromium.sh
	@THALWEG_PICTURES="$(PICTURES)" $(PYTHON) -m pytest -x tests/page/test_page.py

# A broker and Spark's packages for it, on this machine; what Maven gets stays in .kafka.
test-kafka: setup
	@tools/kafka/broker.sh jars
	@$(PYTHON) -m pytest -x -m kafka tests/kafka

# An S3 server on this machine, and Hadoop's S3A for Spark; what Maven gets stays in .s3.
test-s3: setup
	@tools/jars.sh tools/s3.xml .s3/jars
	@$(PYTHON) -m pytest -x -m s3 tests/s3

# Minutes of looking for input that makes a reader fail; what is found becomes a test.
MINUTES := 10
fuzz: setup
	@$(PYTHON) -c 'import atheris' 2>/dev/null || $(PYTHON) -m pip install -qq --disable-pip-version-check -e '.[fuzz]'
	@$(PYTHON) -m tests.fuzz.fuzz $(MINUTES)

lint: setup
	@$(PYTHON) -m ruff check --quiet .
	@$(PYTHON) -m ruff format --check --quiet . \
		|| { echo "lint: some files are not formatted; .venv/bin/ruff format does it" >&2; exit 1; }
	@$(PYTHON) -m mypy

docs: setup
	@tools/docs.sh $(PYTHON) build/site
	@echo "build/site/index.html"

bench: setup
	@$(PYTHON) -m thalweg bench join --workload all
	@$(PYTHON) -m thalweg bench batch
	@$(PYTHON) -m thalweg bench windows
	@$(PYTHON) -m thalweg bench kinds
	@$(PYTHON) -m thalweg bench planners
	@$(PYTHON) -m thalweg bench sites
	@$(PYTHON) -m thalweg bench page
	@$(PYTHON) -m thalweg bench adapt
	@$(PYTHON) -m thalweg bench memory
	@$(PYTHON) -m thalweg bench simulate
	@$(PYTHON) -m thalweg bench split

bench-peers: setup
	@$(PYTHON) benchmarks/peers/run.py

clean:
	@rm -rf demo-out reproduce-out build dist spark-warehouse metastore_db derby.log benchmarks/data \
		examples/*/data examples/*/out examples/*/central \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
