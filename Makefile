# The front door. `make help` lists what there is; every target installs what it needs into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PORT ?= 8443
PROBE_PORT ?= 8080
# Two workers: the machines that this is tested on have two cores.
JOBS ?= 2
# The oldest Kubernetes that the tests run on.
OLDEST := v1.34.4

.DEFAULT_GOAL := help
.PHONY: help run test lint types imports format check chart controlplane e2e e2e-oldest oracle koordinator-oracle bench bench-ledger bench-feeds bench-checkpoint proof outage-proof soak image clean lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "%-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(INSTALLED): requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --no-deps -e .
	touch $@

run: $(INSTALLED) ## start the server on loopback with a demo cluster, and print what to paste
	$(BIN)/numa-admission serve --demo --bind 127.0.0.1:$(PORT) --probe-bind 127.0.0.1:$(PROBE_PORT)

test: $(INSTALLED) ## run the everyday tests (minutes)
	$(BIN)/python -m pytest -n $(JOBS) -m "not e2e and not slow"

lint: $(INSTALLED) ## ruff, on code and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED) ## mypy, strict
	$(BIN)/mypy

imports: $(INSTALLED) ## the layers hold
	$(BIN)/lint-imports

format: $(INSTALLED) ## put the code into its form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint types imports test ## everything that needs no cluster

chart: $(INSTALLED) ## write what the chart takes from the code
	$(BIN)/python helm/numa-admission/generate.py

controlplane: ## build the control plane (K8S_VERSION=v1.34.4: an older one) into a cache outside the tree
	tests/controlplane/build

e2e: $(INSTALLED) controlplane ## run the tests on a real control plane (K8S_VERSION=v1.34.4: on an older one; HELM_VERSION=3)
	$(BIN)/python -m pytest -m "e2e and not slow" -p no:randomly

# What an API server's version can change: patches, reviews, webhook configurations, bindings.
e2e-oldest: $(INSTALLED) ## run that part of e2e on the oldest version
	K8S_VERSION=$(OLDEST) tests/controlplane/build
	K8S_VERSION=$(OLDEST) $(BIN)/python -m pytest -m "e2e and not slow" -p no:randomly \
	  $(addprefix tests/e2e/test_e2e_,apply.py bypass.py capacity.py bind_guard.py chart.py modes_servers.py)

oracle: $(INSTALLED) ## compare the kubelet model with the kubelet's own code on 100,000 fresh cases
	tests/oracle/build || test $$? -eq 3
	NUMA_ADMISSION_ORACLE_CASES=100000 $(BIN)/python -m pytest tests/core/kubelet/test_against_oracle.py

koordinator-oracle: $(INSTALLED) ## compare the scheduler model with Koordinator's own code on 100,000 fresh cases
	tests/koordinator/build || test $$? -eq 3
	NUMA_ADMISSION_KOORDINATOR_CASES=100000 $(BIN)/python -m pytest tests/core/scheduler/test_against_koordinator.py

bench: $(INSTALLED) ## measure the webhooks against an empty handler on the same server
	$(BIN)/python tests/bench/admission_bench.py

bench-ledger: $(INSTALLED) ## measure the ledger at 10,000 nodes
	$(BIN)/python tests/bench/ledger_bench.py

bench-checkpoint: $(INSTALLED) ## measure size, write rate and recall of the checkpoint at 100,000 places
	$(BIN)/python tests/bench/checkpoint_bench.py

bench-feeds: $(INSTALLED) ## measure how fast 50,000 pods on 5,000 nodes are listed into the ledger
	$(BIN)/python tests/bench/feeds_bench.py

proof: $(INSTALLED) ## count AdmissionErrors with and without us, on real schedulers and the kubelet's own code
	tests/oracle/build || test $$? -eq 3
	$(BIN)/python tests/proof/proof.py

outage-proof: $(INSTALLED) ## what users lose while we are restarted, rotated or killed (20 minutes; tests/proof/OUTAGE.md)
	$(BIN)/python tests/proof/outage_proof.py

soak: $(INSTALLED) ## random life on a real control plane for MINUTES; then the ledger must equal a fresh list
	$(BIN)/python -m pytest -m slow -k soak -p no:randomly

image: $(INSTALLED) ## do the Dockerfile's steps without an engine and run what comes out (needs root)
	$(BIN)/python -m pytest -m slow tests/image -p no:randomly

lock: ## resolve the locked versions anew (needs uv)
	uv pip compile -q --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --python-version 3.11 pyproject.toml -o requirements.lock
	uv pip compile -q --extra dev --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --python-version 3.11 pyproject.toml -o requirements-dev.lock

clean: ## remove what was made here
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .run
