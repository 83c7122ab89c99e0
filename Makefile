# Sidewire. "make" lists the targets.

CARGO ?= cargo
SUITE ?=
ROWS ?=
SECONDS ?= 60
SCHEDULES ?=
FIRST ?=
SCRIPTS := .ci/run $(wildcard deploy/*.sh deploy/lab/*.sh) deploy/lab/guest/suite
export CARGO_TERM_COLOR ?= auto

.DEFAULT_GOAL := help
.PHONY: help setup build demo demo-cluster test lab lab-shell loom bench fuzz soak sanitize fmt lint clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## install what building and running need (apt; asks for sudo)
	deploy/setup.sh

build: ## release build of kv-server, kvctl and kv-bench
	$(CARGO) build --release --locked --workspace --bins

demo: setup build ## start a server, load data, look around; no RDMA device needed
	deploy/demo.sh

demo-cluster: setup build ## three servers on one host, one of them killed under load
	deploy/setup.sh --lab
	deploy/demo-cluster.sh

test: ## everything CI checks: format, lints, tests here, end-to-end tests on real verbs in the VM
	deploy/setup.sh --lab --bench
	$(CARGO) fmt --all --check
	$(MAKE) --no-print-directory lint
	SIDEWIRE_CHAOS_SECONDS=$${SIDEWIRE_CHAOS_SECONDS:-180} $(CARGO) test --workspace --locked
	$(MAKE) --no-print-directory loom
	deploy/lab/suite.sh

lab: ## end-to-end tests on real verbs in the VM (SUITE="name..." for some of them)
	deploy/setup.sh --lab
	deploy/lab/suite.sh $(SUITE)

lab-shell: ## a shell in the VM, with a Soft-RoCE device and the programs of the last debug build
	deploy/setup.sh --lab
	deploy/lab/shell.sh

bench: build ## the table of figures beside other stores; ROWS="own get ..." for some of them
	deploy/setup.sh --bench
	deploy/bench.sh $(ROWS)

loom: ## the shared-memory rings under every order the memory model allows
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom $(CARGO) test --locked -p sidewire-common --no-default-features --release loom_model

fuzz: ## the decoders under libFuzzer for SECONDS each (60); needs cargo-fuzz and a nightly toolchain
	deploy/fuzz.sh --seconds $(SECONDS)

soak: ## simulated schedules with faults, on all cores (SUITE=cluster_sim for whole clusters; SCHEDULES=n for so many, else until stopped; FIRST=n the first seed)
	$(if $(SCHEDULES),SIM_SCHEDULES=$(SCHEDULES)) $(if $(FIRST),SIM_FIRST=$(FIRST)) $(CARGO) test --workspace --locked --test $(or $(SUITE),sim) soak -- --ignored --nocapture

sanitize: ## the suite under AddressSanitizer, unit tests of memory and layouts under valgrind
	deploy/sanitize.sh

fmt: ## format the code
	$(CARGO) fmt --all

lint: ## lints as CI sees them
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	shellcheck --severity=warning $(SCRIPTS)

clean: ## remove what cargo built
	$(CARGO) clean
