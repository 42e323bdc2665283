# One command for each purpose; CI calls `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Debian packages the tests use: real SSH servers, network namespaces with firewalls, nmap to compare with, login shells.
SYSTEM_PACKAGES := openssh-server iproute2 nftables nmap tmux zsh fish tcsh

# Most tests wait for processes and networks. The trainer's compute, and import PyTorch in each process.
# In the order and groups of tests/conftest.py.
GROUPED := --dist loadgroup --no-loadscope-reorder
TESTS := -n 10 $(GROUPED)
TRAINER_TESTS := -n 2 $(GROUPED)

ROUNDS ?= 50

.PHONY: demo test tests trainer-tests older-python check flaky gcloud bench chaos shots clean system-packages in-turn

demo: $(VENV)/.trainer
	$(BIN)/tpu-tui demo $(DEMO_ARGS)

# Empty: the many processes that tests start share compiled modules, also where the environment forbids to write them.
test tests trainer-tests older-python flaky gcloud: export PYTHONDONTWRITEBYTECODE =

# What computes runs beside the tests that wait. All parts run even if one fails.
test: $(VENV)/.dev system-packages
	@$(MAKE) --no-print-directory --keep-going --jobs=2 tests in-turn

tests: $(VENV)/.dev
	$(BIN)/python -m pytest $(TESTS) --ignore tests/trainer $(PYTEST_ARGS)

# Each part prints its output when it has ended, in one block.
in-turn: $(VENV)/.dev
	@failed=; for part in check older-python trainer-tests; do \
		output=$$($(MAKE) --no-print-directory $$part 2>&1) || failed="$$failed $$part"; \
		printf '\n== %s ==\n%s\n' "$$part" "$$output"; \
	done; \
	if [ -n "$$failed" ]; then echo "Failed:$$failed"; exit 1; fi

trainer-tests: $(VENV)/.dev
	$(BIN)/python -m pytest $(TRAINER_TESTS) tests/trainer $(PYTEST_ARGS)

older-python:
	sh tests/older_python.sh

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Repeat the tests that depend on time on a busy machine, until one fails.
flaky: $(VENV)/.dev system-packages
	sh tests/flaky.sh $(ROUNDS) $(BIN)/python -m pytest -q -x -m timing $(TESTS) $(PYTEST_ARGS)

# Each scenario of slices by tpu-tui, by gcloud and by Google's client, with equal results.
gcloud: $(VENV)/.dev system-packages
	$(BIN)/python -m pytest -m gcloud -n 2 $(GROUPED) tests/localpod $(PYTEST_ARGS)

bench: $(VENV)/.trainer $(VENV)/.dev
	$(BIN)/python -m tests.bench

chaos: $(VENV)/.dev system-packages
	$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

shots: $(VENV)/.dev
	$(BIN)/python -m tests.shots assets

clean:
	rm -rf $(VENV) .venv-3.10 .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/.base: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "tpu-tui needs Python 3.10 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) -e .
	touch $@

$(VENV)/.trainer: $(VENV)/.base
	@echo "Installing PyTorch and PyTorch/XLA (about 3 GB to download the first time) …"
	$(BIN)/python $(PIP_INSTALL) -e '.[trainer]'
	touch $@

$(VENV)/.dev: $(VENV)/.trainer
	$(BIN)/python $(PIP_INSTALL) -e '.[trainer,dev]'
	touch $@

# Root on Debian or Ubuntu gets the packages installed; elsewhere a test without its package is skipped and names it.
system-packages:
	@sh tests/system_packages.sh $(SYSTEM_PACKAGES)
