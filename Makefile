# make demo   the whole job on a simulated rig, a minute or two
# make test   what a change can break, in minutes
# make test-long  kill storms, built-in plans, the wheel alone (LABCTL_KILLS, LABCTL_RESUME_KILLS)
# make test-vm  the drive in another machine: a virtual one with an emulated NVMe drive
# make check  lint, types, import contracts, and that all tests load
# make bench  the figures of docs/figures.md as ratios to controls (FIGURES=--page renews the page)
# make bench-hours  what points that end by themselves save of a plan's hours (HOURS=--help)
# make bench-screens  how long the dashboards take over 1,000 runs in an InfluxDB 2.x (SCREENS=--help)
# make bench-lab  what 40 rigs at work cost broker, database and who looks at them (LAB=--help)
# make judge  how true every U is, by runs of which the truth is known (SEED=, REGIMES=, JUDGE=--page)
# make judge-import  how often the truth is inside U of recordings that were imported (IMPORTS=--help)
# make judge-stopping  whether points that end by themselves hold (STOPPING=--help)
# make docs   the documentation as a site in site/, which opens without a server
# make chaos  kills, stops, full disks, unplugged meters at random (MINUTES=20, SEED=, CHAOS=--page)
# make soak   the same without kills of the daemon, and whether its memory and handles stay flat
# make stack  InfluxDB, Mosquitto and Grafana by docker compose; make demo STACK=1 shows the demo there

SHELL := /bin/bash
# set in many containers: then each of the tests' hundreds of processes compiles what it runs
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
MADE := $(VENV)/.made
ROOT := $(shell [ "$$(id -u)" = 0 ] && echo yes)
SUDO := $(if $(ROOT),,$(shell sudo -n true 2>/dev/null && echo sudo -n))
MAY_INSTALL := $(or $(ROOT),$(SUDO))
STACK_ENV := $(or $(XDG_STATE_HOME),$(HOME)/.local/state)/labctl/stack/secrets.env
INFLUX_PORT := $(or $(LABCTL_INFLUX_PORT),8086)
GRAFANA_PORT := $(or $(LABCTL_GRAFANA_PORT),3000)
# CI installs what is pinned with hashes; a person's machine takes what its Python can have.
PINNED := $(CI)
DUT_VM := $(or $(DUT_VM),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/labctl/dut-vm)

.PHONY: demo test test-long test-vm check docs bench bench-hours bench-screens bench-lab judge judge-import judge-stopping chaos soak stack env system servers clean constraints

# In the checkout, where labctl looks for runs, too.
DEMO = $(BIN)/labctl demo --runs $(or $(LABCTL_RUNS),runs)
ifdef STACK
demo: stack
	@set -a && . $(STACK_ENV) && $(DEMO) --grafana http://127.0.0.1:$(GRAFANA_PORT) \
		--to "http://127.0.0.1:$(INFLUX_PORT)?org=labctl&bucket=labctl"
else
demo: env
	@$(DEMO)
endif

# Five on two cores: every test waits now and then, for fio or for a meter. A module's tests stay together:
# many share a bench or a run. The slow folders come first in the alphabet.
WORKERS = $(or $(LABCTL_TEST_WORKERS),$(shell echo $$(( $$(nproc) * 5 / 2 ))))
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder
test: servers env
	$(PYTEST)

test-long: servers env
	$(PYTEST) -m long

test-vm: env
	@mkdir -p $(DUT_VM)
	@$(SUDO) bash tests/dut_vm/build.sh $(DUT_VM)
	DUT_VM=$(DUT_VM) $(BIN)/pytest tests/dut_vm -v

check: env
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/pytest --collect-only -m "" > /dev/null || $(BIN)/pytest --collect-only -m ""

# A person's machine gets the group when it is first asked for; CI has it from constraints.txt.
docs: env
	@$(BIN)/python -c "import mkdocs, material, mkdocstrings_handlers" 2>/dev/null || \
		$(BIN)/pip install -q --disable-pip-version-check --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "site/index.html"

stack: env
	@$(BIN)/python -m dashboards.stack.secrets_file $(STACK_ENV)
	docker compose --env-file $(STACK_ENV) -f dashboards/stack/compose.yaml up -d --wait
	@echo "Grafana   http://127.0.0.1:$(GRAFANA_PORT)/d/labctl-overview"
	@echo "InfluxDB  http://127.0.0.1:$(INFLUX_PORT)  (token in $(STACK_ENV))"

bench: env
	$(BIN)/python -m tests.benchmarks $(FIGURES)

bench-hours: env
	$(BIN)/python -m tests.benchmarks.hours_saved $(HOURS)

bench-screens: env
	$(BIN)/python -m tests.benchmarks.wall_screens $(SCREENS)

bench-lab: env
	$(BIN)/python -m tests.benchmarks.lab_at_work $(LAB)

judge: env
	$(BIN)/python -m tests.judge $(if $(SEED),--seed $(SEED)) $(JUDGE) $(REGIMES)

judge-import: env
	$(BIN)/python -m tests.judge_import $(IMPORTS)

judge-stopping: env
	$(BIN)/python -m tests.judge_stopping $(STOPPING)

CHAOS_RUN = $(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),20) $(if $(SEED),--seed $(SEED))
chaos: servers env
	$(CHAOS_RUN) $(CHAOS)

soak: servers env
	$(CHAOS_RUN) --spare daemon $(CHAOS)

env: system $(MADE)

system:
	@MAY_INSTALL="$(MAY_INSTALL)" SUDO="$(SUDO)" bash tests/system-packages.sh

servers:
	@MAY_INSTALL="$(MAY_INSTALL)" SUDO="$(SUDO)" bash tests/system-packages.sh tests

$(MADE): pyproject.toml constraints.txt tests/environment.sh
	@VENV="$(VENV)" PINNED="$(PINNED)" MAY_INSTALL="$(MAY_INSTALL)" SUDO="$(SUDO)" \
		bash tests/environment.sh
	@touch $(MADE)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build site *.egg-info

constraints: env
	$(BIN)/pip install -q pip-tools
	$(BIN)/python -c "import tomllib; groups = tomllib.load(open('pyproject.toml', 'rb'))['dependency-groups']; \
		print(*(line for group in groups.values() for line in group), sep='\n')" | \
	CUSTOM_COMPILE_COMMAND="make constraints" $(BIN)/pip-compile -q --generate-hashes \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --allow-unsafe \
		--strip-extras --all-extras -o constraints.txt pyproject.toml -
