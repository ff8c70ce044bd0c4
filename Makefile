# The targets people call; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup build size bench images dist release-notes check fmt clippy doc manifests reference site go-types generated fuzz clean
.PHONY: test test-programs test-all test-shipped test-unit test-capture test-node test-acceptance test-manifests soak

PLATFORM := $(if $(filter aarch64,$(shell uname -m)),arm64,amd64)
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
KUBERNETES_VERSION := $(shell awk '$$1 == "k8s.io/kubernetes" { print $$2 }' tests/kubernetes/go.mod)
# Bytes: every node keeps them, and every pod starts them.
LARGEST_INIT := 2050000
LARGEST_AGENT := 6000000
LARGEST_PLUGIN := 2500000
MDBOOK := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/outrigger/mdbook-$(shell cat tests/mdbook-version)/bin/mdbook
KUBERNETES := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/outrigger/kubernetes-$(KUBERNETES_VERSION)

# Tests compare with Istio's programs where this names them.
export ISTIO_PROGRAMS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/outrigger/istio-$(shell awk '$$1 == "istio.io/istio" { print $$2 }' tests/istio/go.mod)

# Kept outside the tree, as what `make setup` installs.
CARGO_FUZZ_VERSION := 0.13.1
CARGO_FUZZ := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/outrigger/cargo-fuzz

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## Install or build what the tests need: packages, Kubernetes, CoreDNS, Helm, Envoy, promtool, mdBook, …
	@tests/setup.sh

build: ## Leave the eight release programs in dist/, static, and links for the names of istioctl
	@packaging/build.sh $(PLATFORM) dist
	@for name in outrigger kubectl-outrigger kubectl_complete-outrigger; do ln --force --symbolic istioctl "dist/$$name"; done
	@ls -l dist/
	@$(MAKE) --no-print-directory size

size: ## Check that the programs in dist/ that run for every pod are no larger than they may be
	@for limit in istio-cni=$(LARGEST_PLUGIN) istio-init=$(LARGEST_INIT) pilot-agent=$(LARGEST_AGENT); do \
	    size=$$(stat --format %s "dist/$${limit%=*}"); [[ $$size -le $${limit#*=} ]] || \
	        { echo "make size: dist/$${limit%=*} has $$size bytes, and may have $${limit#*=}" >&2; exit 1; }; \
	done

bench: export OUTRIGGER_PROGRAMS := dist
bench: build ## Measure time, instructions, allocations: docs/performance.md (root)
	@{ command -v valgrind && command -v busybox; } >/dev/null || apt-get install -y -qq valgrind busybox-static >&2
	@[[ -n $${ISTIO_CASES:-} ]] || echo "make bench: LEFT OUT: Istio's templates; ISTIO_CASES does not name its cases" >&2
	cargo bench --locked --profile dev --package istio-init --bench process
	cargo bench --locked --profile dev --package pilot-agent --bench process
	cargo bench --locked --profile dev --package install-cni --bench node
	cargo bench --locked --profile dev --package injector --bench server
	cargo bench --locked --package pilot-agent --bench relay
	cargo bench --locked --package pilot-discovery --bench scale
	cargo bench --locked --package pilot-discovery --bench beside_istiod
	cargo bench --locked --package pilot-discovery --bench sidecars
	cargo bench --locked --package injector --bench review_instructions --bench allocations
	cargo bench --locked --package istioctl --bench kube_inject
	cargo bench --locked --package injector --bench review
	cargo bench --locked --package pilot-routing --bench generation

images: build ## Leave the images of our programs in dist/, as archives to load
	envoy=$$(tests/setup.sh envoy "$(PLATFORM)"); \
	    cargo run --locked --quiet --package packaging -- images --programs dist --output dist --envoy "$$envoy"
	@ls -l dist/*.image.tar

dist: build ## Leave all that a release publishes in dist/release/: PLATFORMS="amd64 arm64", by default those installed
	@packaging/dist.sh $(PLATFORMS)

release-notes: ## Print the section of a version in CHANGELOG.md: VERSION=0.1.0
	@cargo run --locked --quiet --package packaging -- release-notes "$(VERSION)"

fmt: ## Check the formatting
	cargo fmt --all --check

clippy: ## Check the lints; a warning is an error
	cargo clippy --locked --workspace --all-targets -- --deny warnings

doc: ## Check the documentation of the code; a warning is an error
	RUSTDOCFLAGS="$(RUSTDOCFLAGS) --deny warnings" cargo doc --locked --workspace --no-deps --quiet

check: ## Formatting, lints, documentation, unit tests, licences: no root, no set-up
	@for step in fmt clippy doc test-unit; do \
	    printf '\n== make %s\n' "$$step" >&2; \
	    $(MAKE) --no-print-directory "$$step" || { echo "make check: FAILED in make $$step" >&2; exit 1; }; \
	done
	@echo "make check: everything passed" >&2

manifests: setup ## Render manifests/install.yaml, install-mesh.yaml and the templates of manifests/chart
	PATH="$(KUBERNETES):$$PATH" manifests/render.sh
	cargo build --locked --workspace --bin chart
	$(TARGET_DIR)/debug/chart

go-types: ## Write the tables in go-types/tables from their Go modules (Go)
	go -C go-types/generate run . "$(CURDIR)/go-types/tables"

# The same tests compare the pages.
reference: ## Write docs/reference/, docs/man/ and docs/annotations.md from the code
	OUTRIGGER_REFERENCE=write cargo test --locked --quiet --workspace --exclude e2e --exclude fuzz --lib -- _is_current

site: ## Build the documentation as a site in target/site: open index.html
	tests/setup.sh mdbook
	docs/site.sh "$(MDBOOK)" "$(TARGET_DIR)/site"

# The workspace's own lock file is checked by every build.
generated: setup ## Check that generated files, and the lock file of the fuzz targets, are current
	PATH="$(KUBERNETES):$$PATH" manifests/render.sh --check
	cargo build --locked --workspace --bin chart
	$(TARGET_DIR)/debug/chart --check
	@go -C go-types/generate mod download \
	    || { echo "make generated: LEFT OUT: go-types/tables; their Go modules are not available" >&2; exit 0; }; \
	folder=$$(mktemp -d); go -C go-types/generate run . "$$folder"; \
	for table in "$$folder"/*; do \
	    diff -u "go-types/tables/$${table##*/}" "$$table" \
	        || { echo "make generated: hint: make go-types" >&2; exit 1; }; \
	done; rm -r "$$folder"
	@cargo metadata --locked --format-version 1 --manifest-path fuzz/libfuzzer/Cargo.toml >/dev/null \
	    || { echo "make generated: hint: cargo update --workspace --manifest-path fuzz/libfuzzer/Cargo.toml" >&2; exit 1; }

test: ## Everything: set-up, checks, build, all tests (root; first run under an hour)
	@tests/steps.sh
	@echo "make test: everything passed" >&2

# The programs of tests, and ours that they run: those of cargo's profile for development.
test-programs:
	cargo build --locked --workspace --bins --tests

test-all: test-programs
	@tests/lanes.sh --workspace

# What a release has, and a few stories with its programs.
test-shipped: size
	@tests/lanes.sh --shipped --workspace
	OUTRIGGER_PROGRAMS=dist cargo test --locked --workspace --test node -- captur
	OUTRIGGER_PROGRAMS=dist cargo test --locked --workspace --test mesh -- encrypted

test-unit: ## The tests of each crate that need no root, no set-up and no API server
	@tests/lanes.sh --unit --workspace

# Of the whole workspace, as all other targets: the features of crates are the same, so nothing is built twice.
test-capture: test-programs ## Packets through istio-init's rules, in network namespaces (root)
	cargo test --locked --workspace --test 'capture*' --no-fail-fast

test-node: setup test-programs ## The stories on a real Kubernetes node, and with the whole mesh (root)
	cargo test --locked --workspace --test node --test mesh --no-fail-fast

test-manifests: setup test-programs ## What manifests/ installs, rendered and on a real API server (root)
	cargo test --locked --workspace --test manifests --test installation --no-fail-fast

test-acceptance: setup test-programs ## Certificates and admission under faults, on two API servers (root)
	cargo test --locked --workspace --test acceptance

soak: export OUTRIGGER_PROGRAMS := dist
soak: setup build ## The same with long times and many rounds, and the released programs: an hour (root)
	OUTRIGGER_PACE=soak cargo test --locked --workspace --test acceptance --test capture --test storm \
	    --test agent --test supervision --test node --test mesh --test installation --no-fail-fast

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
