# make help lists the targets.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# The tools of lint, each at the one version that counts. CI and every desk use the same.
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint v2.15.0
GOVULNCHECK   = golang.org/x/vuln/cmd/govulncheck v1.9.0
HELM          = helm.sh/helm/v3/cmd/helm v3.22.0

# URL of the vulnerability database for lint; see scripts/vulncheck.sh for the default.
VULNDB ?=

# Limits on each package's tests.
TIMEOUT             ?= 10m
INTEGRATION_TIMEOUT ?= 30m
# The race detector does not look at go-zookeeper's own code, which reads without a lock what was answered last when it connects
# anew (https://github.com/go-zookeeper/zk/pull/35). A watch may so miss that its node has changed, not that it is gone.
RACE                 = -race -gcflags=github.com/go-zookeeper/zk=-race=false
# How many tests of a package run side by side. They wait for most of their time: for leases to end, and for servers to start.
PARALLEL            ?= 3
# How long fuzz and fuzz-short spend on each fuzz test, and how many random commands fuzz sends, from
# which seed; empty makes up a new one.
FUZZTIME            ?= 10s
# How long soak keeps the proxy busy.
DURATION            ?= 1h
COMMANDS            ?= 1000000
CUTS                ?= 20000
SEED                ?=

# Packages with tests of their own behind the integration tag.
INTEGRATION = $(shell grep -rlE --include='*_test.go' '^//go:build.*\bintegration\b' . | xargs -r -n1 dirname | sort -u)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build dist/fence-proxy, a static binary
	@scripts/binary.sh dist/fence-proxy '$(VERSION)'

.PHONY: image
image: deps ## Build the image's files twice into dist/image, compare, and run them from an empty root
	scripts/image.sh '$(VERSION)'
	IMAGE_VERSION='$(VERSION)' $(GO) test -tags image -count=1 -timeout $(TIMEOUT) ./integration/image

.PHONY: deps
deps: ## Install what the tests need (apt)
	@scripts/install-deps.sh

.PHONY: test
test: deps vet all-tests servers-short chaos-short stories spec-short alerts conformance-short ## Run everything that tests: vet, unit and integration tests, some of Redis's own

.PHONY: cuts
cuts: deps ## Cut the connections to Redis CUTS times at random bytes, and count each update
	CUTS=$(CUTS) $(GO) test -tags integration -count=1 -v -timeout $(INTEGRATION_TIMEOUT) -run ThroughCutConnections ./integration

.PHONY: vet
vet: ## Run go vet, integration tests included
	$(GO) vet -tags integration,kube,chart,image,chaos ./...
	$(GO) vet -tags breakable ./integration/chaos/breakage

# What unit and integration tests have in common is built and run once, vet has run, and packages that take longest begin first.
.PHONY: all-tests
all-tests: deps
	$(GO) build $(RACE) -o dist/fence-proxy-race ./cmd/fence-proxy
	PRODUCT_UNDER_TEST=$(CURDIR)/dist/fence-proxy-race \
		$(GO) test $(RACE) -tags integration -count=1 -vet=off -parallel $(PARALLEL) -timeout $(INTEGRATION_TIMEOUT) \
		./integration ./internal/lock/provider ./integration/... ./internal/lock ./...

# The servers that this system does not have; see docs/servers.md. SERVERS="redis-6.0 valkey-8.1" names some.
SERVERS ?=

.PHONY: test-servers
test-servers: deps ## Run the integration tests on Redis 6.0 and 8.0, Valkey 8.0 and 8.1, which are fetched first
	$(GO) build -o dist/fence-proxy-tested ./cmd/fence-proxy
	PRODUCT_UNDER_TEST=$(CURDIR)/dist/fence-proxy-tested scripts/test-servers.sh $(SERVERS)

.PHONY: servers-short
servers-short: deps
	$(GO) build -o dist/fence-proxy-tested ./cmd/fence-proxy
	PRODUCT_UNDER_TEST=$(CURDIR)/dist/fence-proxy-tested scripts/test-servers.sh --short $(SERVERS)

# CHAOS_TIME is for all SEEDS together, the first of which is SEED, or made up. A failure says how to see it again. SITES is where data and
# locks are, one site for each seed in turn: some of redis, clock, etcd, redlock, zookeeper, consul, sentinel and cluster, with commas.
CHAOS_TIME ?= 30m
SEEDS      ?= 20
SITES      ?= all

.PHONY: chaos
chaos: deps ## Real proxies, agents and Redis under seeded faults for CHAOS_TIME, with SEEDS seeds; histories are checked
	$(GO) build -o dist/fence-proxy-tested ./cmd/fence-proxy
	PRODUCT_UNDER_TEST=$(CURDIR)/dist/fence-proxy-tested $(GO) test -tags chaos -count=1 -v -timeout 0 ./integration/chaos \
		-time $(CHAOS_TIME) -seeds $(SEEDS) -seed $(or $(SEED),0) -sites $(SITES)

.PHONY: chaos-short
chaos-short: deps
	$(GO) build -o dist/fence-proxy-tested ./cmd/fence-proxy
	PRODUCT_UNDER_TEST=$(CURDIR)/dist/fence-proxy-tested $(GO) test -tags chaos -count=1 -v -vet=off -parallel 4 -timeout $(TIMEOUT) ./integration/chaos

# With the race detector the explorers play a part of what they play here.
.PHONY: stories
stories:
	$(GO) test -run 'Interleaving|Pool|Story|Explorer' ./internal/lock ./internal/lock/provider

.PHONY: race
race: deps ## Run the unit tests with the race detector
	$(GO) test $(RACE) -count=1 -timeout $(TIMEOUT) ./...

.PHONY: integration
integration: deps ## Run the integration tests with the race detector
	$(if $(INTEGRATION),$(GO) test $(RACE) -tags integration -count=1 -parallel $(PARALLEL) -timeout $(INTEGRATION_TIMEOUT) $(INTEGRATION))

# Packages with tests behind the kube tag alone. One server is started for each test.
KUBE = $(shell grep -rl --include='*_test.go' '^//go:build kube$$' . | xargs -r -n1 dirname | sort -u)

.PHONY: test-kube
test-kube: deps ## Test lock provider kubernetes, chart and webhook on a real kube-apiserver, which is built first: 10 to 30 minutes, once
	KUBE_APISERVER=$$(scripts/kube-apiserver.sh) && export KUBE_APISERVER && \
		$(GO) test $(RACE) -tags kube -run Kube -count=1 -p 1 -timeout $(INTEGRATION_TIMEOUT) $(KUBE) && \
		$(GO) test $(RACE) -tags integration,kube -run 'Elsewhere|LockProvider' -count=1 -timeout $(INTEGRATION_TIMEOUT) ./integration

# The first run builds Helm, some minutes. make test looks at the golden files, without Helm.
.PHONY: chart
chart: ## Lint and render the Helm chart, compare with the golden files, make typical mistakes; UPDATE=1 writes them anew
	HELM=$$(scripts/tool.sh $(HELM)) && export HELM && \
		$(GO) test -tags chart -count=1 -timeout $(TIMEOUT) ./integration/chart $(if $(UPDATE),-update)

.PHONY: soak
soak: deps ## Load the proxy for DURATION (1h) under seeded faults, and see whether memory, goroutines, descriptors and fence records stay flat
	$(GO) test -tags integration -count=1 -timeout 0 -v ./integration/soak -duration $(DURATION) -seed $(or $(SEED),0)

# Redis's own test suite; see the head of the script for what MODES there are.
.PHONY: conformance
conformance: ## Run Redis's own tests through the proxy, 20 minutes; MODES="straight guarded" runs some
	@scripts/conformance.sh $(MODES)

.PHONY: conformance-short
conformance-short: ## Run some of Redis's own tests through the proxy
	@scripts/conformance.sh --short unguarded guarded

# Everybody has a turn in each round; figures to publish take ROUNDS=5 at least, a look takes ROUNDS=1. BENCH is a pattern as in
# BENCH=Cycle or BENCH=Pass/value=16384. See integration/bench/doc.go.
ROUNDS ?= 5
BENCH  ?= .
bench bench-all: export PATH := $(CURDIR)/.bin:$(PATH):/usr/sbin

.PHONY: bench
bench: deps ## Compare with other proxies and locks, and see what grows; ROUNDS=1 is quick, 15 is thorough
	@scripts/install-deps.sh haproxy=haproxy nutcracker=nutcracker
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(ROUNDS)x -timeout 0 ./integration/bench

.PHONY: bench-providers
bench-providers: deps ## Compare the lock providers; ROUNDS=1 is quick
	KUBE_APISERVER=$$(scripts/kube-apiserver.sh) && export KUBE_APISERVER && \
		$(GO) test -run '^$$' -bench . -benchtime $(ROUNDS)x -timeout 0 ./integration/bench/providers

# Some 25 minutes on two idle cores. The first time kube-apiserver is built, 10 to 30 minutes more; KUBE=no leaves lock provider
# kubernetes out. ONLY=growth,memory measures these sections anew, and takes the others from dist/bench, where the last run has left them.
KUBE ?= yes
.PHONY: bench-all
bench-all: deps ## Measure everything, and write docs/benchmarks.md and the figures in README.md
	@scripts/install-deps.sh haproxy=haproxy nutcracker=nutcracker
	$(if $(filter no,$(KUBE)),,KUBE_APISERVER=$$(scripts/kube-apiserver.sh) && export KUBE_APISERVER && )$(GO) run ./integration/bench/all -rounds $(ROUNDS) -only '$(ONLY)'

# The model of the fence; see spec/README.md.
.PHONY: spec
spec: ## Explore the specification exhaustively, and miss each invariant that is taken away: some minutes
	@scripts/install-deps.sh spin=spin
	spec/check.sh full

.PHONY: spec-short
spec-short:
	@scripts/install-deps.sh spin=spin
	spec/check.sh short

# Every interleaving of a few clients over the real sequences, with crashes, lapses and losses between: go test plays
# short stories, this plays the long ones, too. Then many random stories of redlock's nodes.
.PHONY: proof
proof: spec ## Explore the specification, and all interleavings of a few clients over the real code; takes some minutes
	$(GO) test -count=1 -v -timeout 0 -run 'Interleaving|Explorer' ./internal/lock -long
	$(GO) test -count=1 -v -timeout 0 -run 'Story|Explorer' ./internal/lock/provider -redlock.runs 4000

.PHONY: alerts
alerts: deps ## Check and test the Prometheus alert rules
	promtool check rules charts/fence-proxy/files/alerts.yaml
	promtool test rules integration/monitoring/alerts.test.yaml

.PHONY: screenshots
screenshots: deps ## Make docs/status-page*.png anew, from agents at work on a real Redis: 6 minutes
	$(GO) test -tags integration -run '^$$' -bench Screenshots -benchtime 1x -timeout 0 ./integration/page -screenshots '$(CURDIR)/docs'

.PHONY: lint
lint: ## Check format, go.mod, style and known vulnerabilities
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not gofmt'ed: $$unformatted"; exit 1; }
	$(GO) mod tidy -diff
	$$(scripts/tool.sh $(GOLANGCI_LINT)) run
	scripts/vulncheck.sh "$$(scripts/tool.sh $(GOVULNCHECK))" $(VULNDB)

.PHONY: fmt
fmt: ## Format the code as lint wants it
	$$(scripts/tool.sh $(GOLANGCI_LINT)) fmt

.PHONY: fuzz
fuzz: deps fuzz-commands fuzz-short ## Compare COMMANDS random commands with Redis; run each fuzz test for FUZZTIME

.PHONY: fuzz-commands
fuzz-commands: deps
	$(GO) test -tags integration -count=1 -v -timeout 0 ./integration/fuzz \
		-commands $(COMMANDS) -seed $(or $(SEED),$$(date +%s))

# go test fuzzes one test of one package at a time.
.PHONY: fuzz-short
fuzz-short: ## Run each fuzz test for a short time
	@grep -rHoE --include='*_test.go' '^func Fuzz\w+' . | sort | while IFS=: read -r file fuzz; do \
		$(GO) test -run '^$$' -fuzz "^$${fuzz#func }$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
	done

.PHONY: clean
clean: ## Remove what make and go test have built here
	rm -rf dist .bin
	find . -name '*.test' -type f -delete
