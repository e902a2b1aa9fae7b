# The commands of this project. `make help` lists them.

SHELL := /bin/bash
GO ?= go
BIN := bin
TOOLS := $(GO) tool -modfile=tools/go.mod
export CGO_ENABLED ?= 0

.PHONY: help
help: ## List these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | column -t -s "$$(printf '\t')"

.PHONY: build
build: ## Build the binary, static, as bin/atrium
	$(GO) build -trimpath -buildvcs=auto -o $(BIN)/atrium ./cmd/atrium

.PHONY: run
run: build ## Build and start the service with a demo tenant; prints a key and lines to try
	@exec $(BIN)/atrium demo

.PHONY: check
check: ## The inner loop: build, vet, lint, and run the tests that need no server; installs nothing
	$(GO) build ./...
	$(GO) vet ./...
	$(TOOLS) golangci-lint run ./...
	$(GO) test -short $$($(GO) list ./... | grep -v -e '/test$$' -e /test/)

.PHONY: test
test: prepare ## Run every test on SQLite and PostgreSQL, with the same choices in every run
	scripts/test

.PHONY: test-all
test-all: prepare ## Run everything: also all shapes of PostgreSQL, browsers, fuzzing, the benchmarks' own tests
	scripts/test -all
	cd bench && $(GO) test ./...
	$(MAKE) --no-print-directory fuzz FUZZTIME=1s

.PHONY: test-release
test-release: ## Make a release of the last commit twice, and check that it is the same and what is said of it
	$(GO) test -count=1 -timeout 30m -tags release ./test/release

.PHONY: test-citus
test-citus: ## Run the suite, the HTTP scripts, the races and the faults on a Citus cluster: CITUS_URL=postgres://… of its coordinator
	CITUS_URL='$(CITUS_URL)' $(GO) test -count=1 -timeout 60m -tags citus -run 'Citus' ./internal/store
	CITUS_URL='$(CITUS_URL)' $(GO) test -count=1 -timeout 60m -tags citus -run '/^citus$$|//^citus$$' ./test
	CITUS_URL='$(CITUS_URL)' $(GO) test -count=1 -timeout 60m -tags citus -run 'Citus' ./test/nodes

.PHONY: prepare
prepare: ## Install what the tests need and Go does not bring: a C compiler for the race detector, a browser, PostgreSQL, PgBouncer, HAProxy and promtool
	@scripts/prepare

FUZZTIME ?= 1m
.PHONY: fuzz
fuzz: ## Fuzz every decoder, FUZZTIME each (1m); KEEP=1 keeps what they find worth trying
	@KEEP=$(KEEP) scripts/fuzz $(FUZZTIME)

.PHONY: lint-prepare
lint-prepare: ## Install what the linters need and Go does not bring: Node.js for the OpenAPI linter
	@scripts/prepare lint

.PHONY: lint
lint: lint-prepare ## Check formatting, the code, the tools' modules and the OpenAPI documents
	$(GO) vet ./...
	$(GO) vet -tags citus,release,exhaustive ./...
	$(TOOLS) golangci-lint run --build-tags exhaustive ./...
	REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_NOTIFICATIONS=true \
		npx --yes @redocly/cli@2.77.0 lint --config api/redocly.yaml api/openapi.yaml api/manage.yaml

.PHONY: verify
verify: ## Check that the modules are tidy and as they were published, and that the binary builds static
	$(GO) mod verify
	$(GO) mod tidy -diff
	cd bench && $(GO) mod tidy -diff
	cd bench/pocketbase && $(GO) mod tidy -diff
	cd tools/supply && $(GO) mod tidy -diff
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=auto -o $(BIN)/atrium ./cmd/atrium

.PHONY: supply
supply: ## Check the licenses of the binary's modules, and that none has a known vulnerability
	scripts/supply

.PHONY: dist
dist: ## Build a release in dist: reproducible binaries, their SBOMs, licenses, checksums
	scripts/dist

.PHONY: crash
ROUNDS ?= 200
crash: ## Kill the server ROUNDS times (200) under load and audit what it acknowledged
	$(GO) test -v -count=1 -timeout 2h ./test/crash -run TestKill -args -rounds $(ROUNDS)

.PHONY: soak
SOAK ?= 1h
SEED ?= 0
soak: prepare ## Load both engines for SOAK (1h) while things fail at random, and audit; SEED repeats the choices. Reports go to bin
	$(GO) test -v -count=1 -timeout 0 ./test/soak -run TestSoak -args -soak $(SOAK) -seed $(SEED) -report $(CURDIR)/$(BIN)

.PHONY: bench
bench: build prepare ## Compare the API with bare net/http, the databases alone, pgbench and PocketBase; print the ratios, and write docs/performance.md. With CITUS_URL, also the cost of requests on that cluster
	cd bench/pocketbase && CGO_ENABLED=0 $(GO) build -trimpath -o ../../$(BIN)/pocketbase .
	cd bench && $(GO) run ./http -atrium ../$(BIN)/atrium -pocketbase ../$(BIN)/pocketbase -page ../docs/performance.md $(BENCH)
	$(if $(CITUS_URL),cd bench && $(GO) run ./citus -atrium ../$(BIN)/atrium -url '$(CITUS_URL)')

.PHONY: bench-guard
bench-guard: build prepare ## Fail if the API has become slower relative to bare net/http than bench/guard.json allows
	cd bench && $(GO) run ./http -atrium ../$(BIN)/atrium -guard guard.json

.PHONY: bench-guard-update
bench-guard-update: build prepare ## Measure five times what bench-guard does, and write bench/guard.json
	cd bench && $(GO) run ./http -atrium ../$(BIN)/atrium -guard guard.json -update 5

.PHONY: bench-growth
ENTRIES ?= 10000,1000000
GROWTH ?= $(BIN)/growth
bench-growth: build prepare ## Measure every request at ENTRIES (10000,1000000) entries on both engines, and write docs/performance.md; GROWTH keeps the databases
	mkdir -p $(GROWTH)
	cd bench && $(GO) run ./growth -atrium ../$(BIN)/atrium -dir $(abspath $(GROWTH)) -sizes $(ENTRIES)
	cd bench && $(GO) run ./growth -atrium ../$(BIN)/atrium -dir $(abspath $(GROWTH)) -sizes 10000,1000000 -each 100
	cd bench && $(GO) run ./growth -atrium ../$(BIN)/atrium -dir $(abspath $(GROWTH)) -sizes 10000,1000000 -postgres
	cd bench && $(GO) run ./growth -dir $(abspath $(GROWTH)) -docs ../docs

.PHONY: bench-size
bench-size: build ## Move 1,000,000 accounts and 5,000,000 entries out and in; needs 10 GB of disk and half an hour
	cd bench && $(GO) run ./size -atrium ../$(BIN)/atrium

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN) dist
