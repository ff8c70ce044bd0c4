# The targets people call; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup build images fmt clippy manifests generated test test-unit test-capture test-cluster fuzz clean

HOST := $(shell rustc -vV | sed -n 's/^host: //p')
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
KUBERNETES_VERSION := $(shell awk '$$1 == "k8s.io/kubernetes" { print $$2 }' tests/kubernetes/go.mod)
KUBERNETES := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/outrigger/kubernetes-$(KUBERNETES_VERSION)

# Kept outside the tree, as what `make setup` installs.
CARGO_FUZZ_VERSION := 0.13.1
CARGO_FUZZ := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/outrigger/cargo-fuzz

# Static, for images without any library. An explicit target keeps the flags
# from build scripts and procedural macros.
STATIC := RUSTFLAGS="$(RUSTFLAGS) -C target-feature=+crt-static" cargo build --locked --target $(HOST)

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## Install or build what the tests need: packages, Kubernetes, Envoy
	@tests/setup.sh

build: ## Leave the four release programs in dist/, static
	$(STATIC) --release --package injector --package webhook-certs --bins
	$(STATIC) --profile init --package istio-init --bins
	@mkdir -p dist
	@install $(addprefix $(TARGET_DIR)/$(HOST)/release/,sidecar-injector istioctl webhook-certs) dist/
	@install $(TARGET_DIR)/$(HOST)/init/istio-init dist/
	@ls -l dist/

images: build ## Leave the images of our programs in dist/, as archives to load
	cargo run --locked --quiet --package e2e --bin images
	@ls -l dist/*.image.tar

fmt: ## Check the formatting
	cargo fmt --all --check

clippy: ## Check the lints; a warning is an error
	cargo clippy --locked --workspace --all-targets -- --deny warnings

manifests: setup ## Render manifests/install.yaml from manifests/base
	PATH="$(KUBERNETES):$$PATH" manifests/render.sh

generated: setup ## Check that rendered files are current
	PATH="$(KUBERNETES):$$PATH" manifests/render.sh --check

test: ## Everything: set-up, checks, build, all tests (root; first run under an hour)
	@for step in setup fmt clippy generated build test-all; do \
	    printf '\n== make %s\n' "$$step" >&2; \
	    $(MAKE) --no-print-directory "$$step" || { echo "make test: FAILED in make $$step" >&2; exit 1; }; \
	done
	@echo "make test: everything passed" >&2

.PHONY: test-all
test-all:
	cargo test --locked --workspace --no-fail-fast

test-unit: setup ## The tests of each crate: no node, no network namespaces
	cargo test --locked --workspace --lib --bins --no-fail-fast
	cargo test --locked --workspace --exclude e2e --no-fail-fast --tests

test-capture: ## Packets through istio-init's rules, in network namespaces (root)
	cargo test --locked --package e2e --test 'capture*' --no-fail-fast

test-cluster: setup build ## The stories on a real Kubernetes node (root)
	cargo test --locked --package e2e --test cluster

fuzz: ## Let libFuzzer look for what breaks a target: TARGET=name (or all), TIME=60 seconds each
	@test -x "$(CARGO_FUZZ)/bin/cargo-fuzz" || CARGO_TARGET_DIR="$(CARGO_FUZZ)/build" \
	    cargo install --locked --debug --root "$(CARGO_FUZZ)" cargo-fuzz --version $(CARGO_FUZZ_VERSION)
	@mkdir -p "$(TARGET_DIR)/fuzz"
	@folder=$$(realpath "$(TARGET_DIR)/fuzz"); \
	for target in $(or $(TARGET),$(notdir $(wildcard fuzz/corpus/*))); do \
	    printf '\n== %s\n' "$$target" >&2; \
	    found="$$folder/found/$$target"; mkdir -p "$$found"; \
	    RUSTC_BOOTSTRAP=1 TARGET="$$target" PATH="$(CARGO_FUZZ)/bin:$$PATH" cargo fuzz run --fuzz-dir fuzz/libfuzzer \
	        --sanitizer none --target-dir "$$folder" target "$$found" "fuzz/corpus/$$target" -- \
	        -max_total_time=$(or $(TIME),60) -timeout=10 -rss_limit_mb=2048 -max_len=16384 \
	        -artifact_prefix="$$found-" -print_final_stats=1; \
	done

clean: ## Remove what was built in this tree; the cache outside stays
	cargo clean
	rm -rf dist
