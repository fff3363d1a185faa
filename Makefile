# make demo   the whole job on a simulated rig, a minute or two
# make test   every test
# make check  lint, types, import contracts, docs
# make bench  the figures of docs/figures.md, target and measured side by side

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
MADE := $(VENV)/.made
ROOT := $(shell [ "$$(id -u)" = 0 ] && echo yes)
SUDO := $(if $(ROOT),,$(shell sudo -n true 2>/dev/null && echo sudo -n))
MAY_INSTALL := $(or $(ROOT),$(SUDO))
# CI installs what is pinned with hashes; a person's machine takes what its Python can have.
PINNED := $(CI)

.PHONY: demo test check bench env system clean constraints

demo: env
	@$(BIN)/labctl demo

test: env
	$(BIN)/pytest

check: env
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: env
	$(BIN)/python -m tests.benchmarks

env: system $(MADE)

system:
	@MAY_INSTALL="$(MAY_INSTALL)" SUDO="$(SUDO)" bash tests/system-packages.sh

$(MADE): pyproject.toml constraints.txt tests/environment.sh
	@VENV="$(VENV)" PINNED="$(PINNED)" MAY_INSTALL="$(MAY_INSTALL)" SUDO="$(SUDO)" \
		bash tests/environment.sh
	@touch $(MADE)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info

constraints: env
	$(BIN)/pip install -q pip-tools
	CUSTOM_COMPILE_COMMAND="make constraints" $(BIN)/pip-compile -q --generate-hashes \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --allow-unsafe \
		--strip-extras --extra test --extra check --build-deps-for editable \
		-o constraints.txt pyproject.toml
