# Thin names over commands; `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SOURCES := pyproject.toml CMakeLists.txt packaging/constraints.txt memlab/experiments/_build_probes.py \
	$(wildcard probes/*.[ch] probes/*/*.[ch] memlab/machines/guest/*.c memlab/command/*.c memlab/diagnose/*.c memlab/trace/*.[ch] memlab/trace/*/*.[ch])

PIN := $(BIN)/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras \
	--no-header --no-annotate --no-emit-index-url --no-emit-trusted-host --no-emit-find-links
PINNED := \# Exact versions and the hashes of their files; `make constraints` writes this.

.DELETE_ON_ERROR:
.PHONY: help run test test-ci test-all check bench storm format docs-commands pages site man wheels constraints clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: $(VENV)/ready ## measure mmap-write on this machine: a table here, a figure in results/ (WAIT=10min: after another memlab)
	$(BIN)/memlab $(if $(WAIT),--wait=$(WAIT)) sweep mmap-write -o results
	@echo 'the command is $(BIN)/memlab; next: . $(BIN)/activate && memlab claims last'

# Of the tests: each takes 7 s of processor time to collect them.
PROCESSES ?= 2
# Without its bytecode each of some hundred processes would compile memlab anew.
test test-ci test-all bench: export PYTHONDONTWRITEBYTECODE :=

test: $(VENV)/ready-dev ## the tests of every module and probe, without those that take seconds (SHUFFLE=1: in another order)
	$(BIN)/pytest -n $(PROCESSES) -m "not slow" $(if $(SHUFFLE),--shuffle $(SHUFFLE))

test-ci: $(VENV)/ready-dev ## what CI runs: these, what takes seconds, and the slow ones of kills, guests, probes and stores
	$(BIN)/pytest -n $(PROCESSES) -m "not nightly" $(if $(SHUFFLE),--shuffle $(SHUFFLE))

test-all: $(VENV)/ready-dev ## every test: whole sweeps, guests and builds too
	$(BIN)/pytest -n $(PROCESSES) $(if $(SHUFFLE),--shuffle $(SHUFFLE))

check: $(VENV)/ready-dev ## lint, types, import layers, C warnings and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror probes/*.[ch] probes/*/*.[ch] memlab/machines/guest/*.c memlab/command/*.c memlab/diagnose/*.c memlab/trace/*.[ch] memlab/trace/*/*.[ch]
	$(BIN)/python tests/warnings_as_errors.py

bench: $(VENV)/ready-dev ## compare memlab with peers and with itself, by time, into tests/bench/README.md
	$(BIN)/pytest tests/bench -m bench -rA --bench-page tests/bench/README.md

storm: $(VENV)/ready-dev ## kill sweeps and recordings at KILLS random moments (1000), and count what is left of each
	$(BIN)/python tests/storm.py --kills $(or $(KILLS),1000) $(if $(SEED),--seed $(SEED)) \
		$(if $(MINUTES),--minutes $(MINUTES)) $(if $(GUEST_KERNEL),--kernel $(GUEST_KERNEL))

format: $(VENV)/ready-dev ## format Python and C
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i probes/*.[ch] probes/*/*.[ch] memlab/machines/guest/*.c memlab/command/*.c memlab/diagnose/*.c memlab/trace/*.[ch] memlab/trace/*/*.[ch]

docs-commands: $(VENV)/ready-dev ## run every command that README and the guides show
	$(BIN)/pytest tests/test_docs.py tests/test_adding.py tests/machines/test_guest_docs.py tests/fleet/test_page.py

pages: $(VENV)/ready-dev ## write the generated pages and figures that git has in docs
	$(BIN)/python docs/make.py

site: $(VENV)/ready-dev man ## build the documentation as a site in build/site, with every figure and reference
	$(BIN)/mkdocs build --strict --quiet

man: $(VENV)/ready-dev ## write the man pages in build/man; wheels that are built then hold them
	$(BIN)/python docs/built.py build/man

wheels: $(VENV)/ready-dev man ## build an sdist and wheels for x86_64 and aarch64 in dist/
	packaging/wheels.sh $(BIN)/python

constraints: $(VENV)/ready-dev ## pin the newest versions that fit, with their hashes
	$(PIP) install pip-tools
	$(PIN) --extra build -o packaging/constraints.txt pyproject.toml
	$(PIN) --all-extras -o packaging/constraints-dev.txt pyproject.toml
	sed -i '1i $(PINNED)' packaging/constraints.txt packaging/constraints-dev.txt

clean: ## remove what was built here; the store is not touched
	rm -rf $(VENV) build dist results .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/made:
	@packaging/missing.sh $(PYTHON) >/dev/null
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/ready: $(VENV)/made $(SOURCES)
	@echo "pip fetches what memlab needs, 0.5 GB in $(VENV), and compiles it: a minute or two, in silence"
	$(PIP) install --require-hashes -r packaging/constraints.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/ready-dev: $(VENV)/ready packaging/constraints-dev.txt
	@echo "pip fetches what tests and checks need, 0.6 GB more in $(VENV): a minute or two, in silence"
	$(PIP) install --require-hashes -r packaging/constraints-dev.txt
	@touch $@
