# Run `make help` for a list of the targets.

SHELL := /bin/bash
GO ?= go
BIN := bin
BINARY ?= $(BIN)/atrium
TOOLS := $(GO) tool -modfile=tools/go.mod
export CGO_ENABLED ?= 0
export GOFLAGS := -trimpath $(GOFLAGS) # also for tests, so that they share the packages of the build

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | column -t -s "$$(printf '\t')"

.PHONY: build
build: ## Build the static binary bin/atrium
	$(GO) build -buildvcs=auto -ldflags='-s -w' -o $(BINARY) ./cmd/atrium

.PHONY: run
run: build ## Build and start the service with a demo tenant; prints an API key and example commands
	@exec $(BIN)/atrium demo

.PHONY: check
check: ## Build, vet, lint, and run the tests that need no server (1 minute); installs nothing
	$(GO) build ./...
	$(GO) vet ./...
	$(TOOLS) golangci-lint run ./...
	$(GO) test -short $$($(GO) list ./... | grep -v -e '/test$$' -e /test/)

.PHONY: test
test: prepare ## Run the tests on SQLite and PostgreSQL with fixed random seeds
	scripts/test

.PHONY: test-all
test-all: prepare lint-prepare ## Run all tests: also all PostgreSQL configurations, browsers, fuzzing, generated clients, the Terraform provider, and the tests of bench and the tools
	scripts/test -all
	$(MAKE) --no-print-directory -j 2 --output-sync=target fuzz test-terraform test-modules FUZZTIME=300x

# -count=1: the cache of results does not see that files outside of a module have changed.
.PHONY: test-modules
test-modules: ## Run the tests of the benchmarks, the examples with generated clients, and the tools
	cd bench && $(GO) test ./...
	cd examples && $(GO) test .
	cd tools/packages && $(GO) test -count=1 ./...
	cd tools/release && $(GO) test .
	cd tools/chart && $(GO) test -count=1 ./...

.PHONY: screenshots
screenshots: prepare ## Save the pictures of the console in docs/images
	$(GO) test -count=1 -run '^TestScreenshots$$' ./test/browser -args -screenshots "$(CURDIR)/docs/images"

.PHONY: test-release
test-release: prepare ## Check that two releases of the last commit are identical, that their metadata and signatures are right, and that the last release can be upgraded to it
	$(GO) test -count=1 -timeout 30m -tags release ./test/release

.PHONY: test-terraform
test-terraform: build ## Test the Terraform provider with OpenTofu and a server; the first time, build OpenTofu (minutes)
	scripts/tofu $(BIN)/tofu
	cd terraform && $(GO) vet ./... && $(GO) test -count=1 ./internal/... && $(GO) test -count=1 . -args -tofu ../$(BIN)/tofu -atrium ../$(BIN)/atrium

.PHONY: test-citus
test-citus: ## Run the store suite and the tests of scripts, races and faults on the Citus cluster with the coordinator CITUS_URL=postgres://…
	CITUS_URL='$(CITUS_URL)' $(GO) test -count=1 -timeout 60m -tags citus -run 'Citus' ./internal/store
	CITUS_URL='$(CITUS_URL)' $(GO) test -count=1 -timeout 60m -tags citus -run '/^citus$$|//^citus$$' ./test
	CITUS_URL='$(CITUS_URL)' $(GO) test -count=1 -timeout 60m -tags citus -run 'Citus' ./test/nodes

.PHONY: prepare
prepare: ## Install the test dependencies: a C compiler for the race detector, a browser, PostgreSQL, PgBouncer, HAProxy, promtool and systemd-analyze
	@scripts/prepare

FUZZTIME ?= 1m
.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (1m), or for some inputs (300x); KEEP=1 keeps the generated corpus
	@KEEP=$(KEEP) scripts/fuzz $(FUZZTIME)

.PHONY: lint-prepare
lint-prepare: ## Install Node.js for the OpenAPI linter and TypeScript clients
	@scripts/prepare lint

.PHONY: lint
lint: lint-prepare ## Lint the code, its formatting and the OpenAPI documents
	$(TOOLS) golangci-lint run --build-tags citus,exhaustive,litestream,release ./... # with go vet
	REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_NOTIFICATIONS=true \
		npx --yes @redocly/cli@2.77.0 lint --config api/redocly.yaml api/openapi.yaml api/manage.yaml api/content.yaml api/receive.yaml api/events.yaml

# The modules of this repository. What they need is downloaded side by side, which takes most of the time on a new machine.
MODULES := . bench bench/pocketbase tools/supply tools/packages tools/release tools/chart tools/tofu terraform
.PHONY: verify $(MODULES:%=tidy/%)
verify: ## Check that go.mod is tidy, that modules match go.sum, and that the static binary builds
	$(MAKE) --no-print-directory -j 4 --output-sync=target $(MODULES:%=tidy/%) build
	$(GO) mod verify

$(MODULES:%=tidy/%): tidy/%:
	cd $* && $(GO) mod tidy -diff

.PHONY: supply
supply: ## Check the licenses and known vulnerabilities of the modules in the binary
	scripts/supply

.PHONY: dist
dist: ## Build a release in dist: reproducible binaries, packages, images, SBOMs, licenses, notes, provenance, checksums; signs it with ATRIUM_SIGNING_KEY
	scripts/dist

.PHONY: crash
ROUNDS ?= 200
crash: ## Kill the server ROUNDS times (200) under load, and check that no acknowledged entry is lost
	$(GO) test -v -count=1 -timeout 2h ./test/crash -run TestKill -args -rounds $(ROUNDS)

.PHONY: crash-events
KILLS ?= 20
crash-events: prepare ## Kill servers KILLS times (20) while they deliver events, after 1000 entries each, on both engines and on three nodes, and check that all events arrive
	$(GO) test -v -count=1 -timeout 2h ./test/crash -run TestKillLosesNoEventOfAWebhook -args -kills $(KILLS) -entries 1000
	$(GO) test -v -count=1 -timeout 2h ./test/nodes -run TestKilledNodesLoseNoEvent -args -kills $(KILLS) -entries 1000

.PHONY: soak
SOAK ?= 1h
SEED ?= 0
soak: prepare ## Load both engines for SOAK (1h) with random faults, and audit the data; SEED repeats a run. Writes reports to bin
	$(GO) test -v -count=1 -timeout 0 ./test/soak -run TestSoak -args -soak $(SOAK) -seed $(SEED) -report $(CURDIR)/$(BIN)

.PHONY: bench
bench: build prepare ## Compare the API with bare net/http, the databases without Atrium, pgbench and PocketBase, and write docs/performance.md. With CITUS_URL, also measure requests on that cluster
	cd bench/pocketbase && CGO_ENABLED=0 $(GO) build -o ../../$(BIN)/pocketbase .
	cd bench && $(GO) run ./http -atrium ../$(BIN)/atrium -pocketbase ../$(BIN)/pocketbase -page ../docs/performance.md $(BENCH)
	$(if $(CITUS_URL),cd bench && $(GO) run ./citus -atrium ../$(BIN)/atrium -url '$(CITUS_URL)')

.PHONY: bench-guard
bench-guard: build prepare ## Fail if the API has become slower relative to bare net/http than bench/guard.json allows
	cd bench && $(GO) run ./http -atrium ../$(BIN)/atrium -guard guard.json

.PHONY: bench-guard-update
bench-guard-update: build prepare ## Run the measurements of bench-guard five times, and write bench/guard.json
	cd bench && $(GO) run ./http -atrium ../$(BIN)/atrium -guard guard.json -update 5

.PHONY: bench-copy
bench-copy: build ## Measure atrium copy with 1,000,000 entries; COPY=… sets flags, such as the URLs of empty targets
	cd bench && $(GO) run ./copy -atrium ../$(BIN)/atrium $(COPY)

.PHONY: bench-growth
ENTRIES ?= 10000,1000000
GROWTH ?= $(BIN)/growth
bench-growth: build prepare ## Measure every request on databases of ENTRIES (10000,1000000) entries, and write docs/performance.md; keeps the databases in GROWTH (bin/growth)
	mkdir -p $(GROWTH)
	cd bench && $(GO) run ./growth -atrium ../$(BIN)/atrium -dir $(abspath $(GROWTH)) -sizes $(ENTRIES)
	cd bench && $(GO) run ./growth -atrium ../$(BIN)/atrium -dir $(abspath $(GROWTH)) -sizes 10000,1000000 -each 100
	cd bench && $(GO) run ./growth -atrium ../$(BIN)/atrium -dir $(abspath $(GROWTH)) -sizes 10000,1000000 -postgres
	cd bench && $(GO) run ./growth -dir $(abspath $(GROWTH)) -docs ../docs

.PHONY: bench-keys
bench-keys: build ## Measure the index of idempotency keys and alternatives at 10,000 and 1,000,000 entries; KEYS=… sets flags, such as -sizes 10000000, which needs 12 GB of disk and hours
	cd bench && $(GO) run ./keys -atrium ../$(BIN)/atrium $(KEYS)

.PHONY: bench-events
bench-events: build prepare ## Measure the cost of outbound events, the speed of their delivery and that of receivers; EVENTS=… sets flags, such as -waiting 100000
	cd bench && $(GO) run ./events -atrium ../$(BIN)/atrium $(EVENTS)

.PHONY: bench-console
PAGES ?= 50000,5000000
bench-console: build prepare ## Measure every page of the console on databases of PAGES (50000,5000000) entries, one account for 5; needs 10 GB of disk
	cd bench && $(GO) run ./growth -atrium ../$(BIN)/atrium -console -sizes $(PAGES) -connections 1
	cd bench && $(GO) run ./growth -atrium ../$(BIN)/atrium -console -sizes $(PAGES) -connections 1 -postgres

.PHONY: bench-size
bench-size: build ## Export and import 1,000,000 accounts and 5,000,000 entries; needs 10 GB of disk and half an hour
	cd bench && $(GO) run ./size -atrium ../$(BIN)/atrium

.PHONY: clean
clean: ## Remove build output
	rm -rf $(BIN) dist
