# Sealcast: `make` lists the targets, CONTRIBUTING.md says more about each.

.DEFAULT_GOAL := help
.NOTPARALLEL:

# A clone without its history, or one that belongs to another user, still builds:
# the version comes from git describe where there is one, not from Go's own stamp.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)

# Systems that the code must build and vet for, besides the one it is on.
CROSS := linux/arm64 darwin/arm64

# Arguments of `make run`, such as ARGS='--set loops=2'.
ARGS ?=

# Time for each fuzz target; empty: 60s, or less where all of them would take more than FUZZBUDGET seconds.
FUZZTIME ?=
FUZZBUDGET ?= 200

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## build and start the gateway with its built-in Redis and demo feed
	@exec bin/sealcast serve $(ARGS)

.PHONY: build
build: ## build bin/sealcast and bin/sealctl
	go build -trimpath -ldflags '-X github.com/sealcast/sealcast/internal/version.release=$(VERSION)' -o bin/ ./cmd/sealcast ./cmd/sealctl

.PHONY: test
test: deps lint check-generated ## everything that must pass: lint, unit, race and integration tests, the same with a key per record, readers on 32 bits, the Python client, the browser client and the page
	go test ./...
	go test -race $$(go list ./... | grep -v -e /internal/deployment -e /internal/e2e) # these start programs; test-race-programs
	GOARCH=386 CGO_ENABLED=0 go vet ./wire/... ./client ./session ./crypto/... # int has 32 bits there
	@if [ "$$(go env GOHOSTOS)/$$(go env GOHOSTARCH)" = linux/amd64 ]; then \
		echo "the readers of what comes from the wire, where int has 32 bits"; GOARCH=386 CGO_ENABLED=0 go test ./wire/... ./client; fi
	SEALCAST_TEST_REKEY=1 SEALCAST_TEST_SEAL=group go test -count=1 ./client ./gateway ./session ./internal/integration
	/usr/bin/python3 -m unittest discover -s examples/python
	$(MAKE) test-web

.PHONY: test-web
test-web: deps web/node_modules ## the client for browsers and Node, against vectors and the gateway; the live page in Chromium
	scripts/api.sh --check
	cd web && npm run --silent check && npm run --silent test && npm run --silent test:page

.PHONY: api
api: web/node_modules ## write the API references in docs/api from the code
	scripts/api.sh

.PHONY: metrics
metrics: ## write docs/metrics.md from the code
	go test ./gateway/admin -run '^TestMetricsPage$$' -count=1 -update

.PHONY: page
page: web/node_modules ## build the live page into gateway/admin/page, from web/page
	cd web && npm run --silent build

web/node_modules: web/package-lock.json
	cd web && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: test-long
test-long: deps web/node_modules ## what takes longer: more mutated streams, failures of Redis, a minute of 5,000 ticks/s in Chromium, the page in Firefox, the servers of bench-peers, fuzzing
	FIREFOX=1 scripts/deps.sh
	SEALCAST_LONG=1 go test -count=1 -timeout 30m ./fanout ./gateway ./internal/integration
	SEALCAST_LONG=1 go test -count=1 -timeout 30m -run 'TestRecordedFeeds|TestSeveralGateways/streams' ./internal/e2e
	cd web && SEALCAST_LONG=1 npm run --silent test property && SEALCAST_LONG=1 npm run --silent test:page minute firefox
	cd bench/peers && go vet ./... && go test -count=1 ./...
	$(MAKE) test-deploy
	$(MAKE) fuzz

.PHONY: test-race-programs
test-race-programs: deps ## the programs themselves under the race detector, at work
	go test -race -timeout 30m ./internal/e2e

.PHONY: test-scale
test-scale: deps ## thousands of sessions, for a machine with nothing else to do: idle, that stop reading, at reloads, at a stop and at a kill
	SEALCAST_LONG=1 go test -count=1 -timeout 30m -v -run 'TestIdleSessions|TestStopWithManySessions|TestSomeStopReading|TestReloadWithManySessions|TestKilledGatewayComesBack' ./internal/e2e

.PHONY: bench
bench: build ## run every load test for a short while against a gateway of its own; writes bench-report.html (below 8 minutes)
	bin/sealctl bench all --start -o json $(ARGS) > bench-report.json
	bin/sealctl report -o html bench-report.json > bench-report.html
	bin/sealctl report bench-report.json
	@echo "bench-report.html has the charts"

.PHONY: bench-peers
bench-peers: build ## the same work by Sealcast and by others, in turn; writes tables of docs/performance.md, bench-peers.json, bench-peers.txt (below 15 minutes)
	go build -C bench/peers -o ../../bin/peers .
	bin/peers -gateway bin/sealcast -page docs/performance.md -json bench-peers.json -history bench-peers.txt $(ARGS)

# What `make benchcmp` compares: the newest file of bench/history with the last run of `make bench-peers`.
OLD ?= $(lastword $(sort $(wildcard bench/history/*.txt)))
NEW ?= bench-peers.txt

.PHONY: benchcmp
benchcmp: ## compare the last run of bench-peers with an earlier one (OLD=file NEW=file)
	cd bench/peers && go tool benchstat '$(abspath $(OLD))' '$(abspath $(NEW))'

# How long `make soak` lasts; memory is judged from 10m on.
SOAK ?= 30m

.PHONY: soak
soak: deps ## 30 minutes of mixed load, with accounts of every tick and of memory (SOAK=30m)
	SOAK=$(SOAK) go test -count=1 -timeout 0 -v -run '^TestSoak$$' ./internal/e2e

.PHONY: lint
lint: ## gofmt, go vet, staticcheck; build and vet for the other systems
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		printf 'not formatted, run gofmt -w on:\n%s\n' "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	@for system in $(CROSS); do \
		echo "build and vet for $$system"; \
		export CGO_ENABLED=0 GOOS=$${system%/*} GOARCH=$${system#*/}; \
		go build ./... && go vet ./... || exit 1; done

.PHONY: generate
generate: ## write wire/sealcast.pb.go from wire/sealcast.proto (needs protoc)
	scripts/generate.sh .

.PHONY: check-generated
check-generated: ## check that the generated code fits its source (needs protoc)
	scripts/check-generated.sh

.PHONY: fuzz
fuzz: ## run every fuzz target for a while (FUZZTIME=60s)
	FUZZTIME='$(FUZZTIME)' FUZZBUDGET='$(FUZZBUDGET)' scripts/fuzz.sh

.PHONY: test-deploy
test-deploy: deps build ## check the Helm chart, compose.yaml, that releases are reproducible, and several gateways by their script, and what README tells a newcomer (part of test-long)
	cd tools/deployment && go vet ./... && go test ./...
	scripts/check-release.sh
	deploy/several/rehearse.sh
	scripts/check-readme.sh

.PHONY: release
release: ## build archives, checksums and bills of materials for VERSION into dist
	scripts/release.sh '$(VERSION)'

.PHONY: vulnerabilities
vulnerabilities: ## look for known vulnerabilities in what the programs are made of (needs the network)
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

.PHONY: deps
deps: ## install the programs that the tests need, where that is possible
	@scripts/deps.sh

.PHONY: clean
clean: ## remove what the targets above have built
	rm -rf bin bench-report.json bench-report.html bench-peers.json bench-peers.txt web/node_modules web/sdk/build web/sdk/dist web/page/build web/programs dist/page
