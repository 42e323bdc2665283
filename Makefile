# One command each; CI calls `make test` unchanged.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Debian packages the tests use: real SSH servers, network namespaces with firewalls, nmap to compare with, login shells.
SYSTEM_PACKAGES := openssh-server iproute2 nftables nmap tmux zsh fish tcsh

# In the order of collection, which tests/conftest.py makes: xdist's own puts files of few tests last, which take longest.
BY_FILE := --dist loadfile --no-loadscope-reorder
# Most tests wait for processes and networks; the trainer's, which import PyTorch in each, fill two cores by twos.
IN_PARALLEL := -n 4 $(BY_FILE)
TRAINERS := -n 2 $(BY_FILE)

.PHONY: demo test check bench chaos shots clean system-packages

demo: $(VENV)/.trainer
	$(BIN)/tpu-tui demo $(DEMO_ARGS)

# Every command, keeper and worker that a test starts is a process that would else compile the package anew.
test: export PYTHONDONTWRITEBYTECODE =
test: check $(VENV)/.trainer system-packages
	$(BIN)/python -m pytest $(IN_PARALLEL) --ignore tests/trainer $(PYTEST_ARGS)
	$(BIN)/python -m pytest $(TRAINERS) tests/trainer $(PYTEST_ARGS)
	sh tests/older_python.sh $(IN_PARALLEL)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

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

# As root on Debian or Ubuntu the packages are installed; elsewhere tests that miss one say so in their skip reason.
system-packages:
	@sh tests/system_packages.sh $(SYSTEM_PACKAGES)
