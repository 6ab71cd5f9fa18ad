# Every target that is meant for people carries a "## text"; `make help` prints those.

# The toolchain is named here and not only in go.mod, so that a machine whose own Go is older fetches
# exactly this one and a machine whose Go is newer does not format, vet or generate differently.
export GOTOOLCHAIN := go1.27.3

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT   ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
PACKAGES ?= ./...
# With cmd/waypoint/default.pgo, all that the program imports is compiled a second time, minutes of it. The
# program that is shipped is worth that, its tests are not.
NOPGO    := -pgo=off
FUZZTIME ?= 60
COUNT    ?= 6
# When the commit was made, for what has to have a time: `make images` twice gives the same.
CREATED  ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

ARCHITECTURES ?= amd64 arm64
PROGRAMS      := waypoint waypoint-controller

TOOLS      := .cache/bin
TOOL_NAMES := golangci-lint h2spec benchstat govulncheck helm

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/waypoint: static, without paths of this machine in it
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/waypoint ./cmd/waypoint

.PHONY: build-controller
build-controller: ## bin/waypoint-controller, likewise
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/waypoint-controller ./cmd/waypoint-controller

.PHONY: build-kubectl
build-kubectl: ## bin/kubectl-waypoint, the plugin of kubectl, likewise (docs/kubectl.md)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/kubectl-waypoint ./cmd/kubectl-waypoint

.PHONY: demo
demo: build ## watch a waypoint at work, on loopback addresses alone (DEMOFLAGS=--keep to play on, --output=json)
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/waypoint-demo ./cmd/waypoint-demo
	bin/waypoint-demo $(DEMOFLAGS)

.PHONY: test
test: ## unit tests and whole-proxy stories, allocation assertions included (PACKAGES=./internal/h2/... for some)
	$(GO) test $(NOPGO) $(TESTFLAGS) $(PACKAGES)

.PHONY: race
race: ## the same under the race detector; needs a C compiler
	CGO_ENABLED=1 $(GO) test -race $(NOPGO) $(TESTFLAGS) $(PACKAGES)

.PHONY: test-goroutines
test-goroutines: export WAYPOINT_TEST_TASK_MODE := goroutines
test-goroutines: ## the tests of whole proxies again, with exchanges on goroutines instead of coroutines
	$(GO) test $(NOPGO) $(TESTFLAGS) ./cmd/waypoint ./internal/app ./internal/tunnel ./test/...

.PHONY: stories-heavy
stories-heavy: ## stories of load and memory: 10,000 idle connections, 2,100 at once, vanishing clients, slow readers
	$(GO) test -count=1 -v -run '^TestLoad' ./test/stories -heavy

.PHONY: arch
arch: ## import arrows, package comments, sizes of files and functions
	$(GO) test -count=1 ./internal/archtest

.PHONY: bench
bench: build bin/bench ## what the waypoint costs beside real Envoy (SCENARIO=published,serial ROUNDS=3 TARGETS=waypoint,envoy for some)
	bin/bench $(if $(SCENARIO),-scenario $(SCENARIO)) $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(TARGETS),-targets $(TARGETS)) $(BENCHFLAGS)

.PHONY: bench-ci
bench-ci: build bin/bench ## every scenario of it once, short, for function and for figures that do not depend on the machine
	bin/bench -short -out .cache/bench-ci

.PHONY: bench-go
bench-go: ## go benchmarks, COUNT times each, ready for benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) $(PACKAGES)

.PHONY: bench-compare
bench-compare: $(TOOLS)/benchstat ## go benchmarks of this tree and of BASE=commit in turn, and benchstat of them (PACKAGES=internal/h2 for some)
	COUNT=$(COUNT) benchmarks/compare.sh $(BASE) $(filter-out ./...,$(PACKAGES))

.PHONY: bench-base
bench-base: build bin/bench ## the whole waypoint of this tree beside that of BASE=commit (SCENARIO, ROUNDS as for bench)
	benchmarks/base.sh $(BASE)
	bin/bench -base .cache/bench-base/waypoint -targets waypoint,base -out .cache/bench-base \
		$(if $(SCENARIO),-scenario $(SCENARIO)) $(if $(ROUNDS),-rounds $(ROUNDS)) $(BENCHFLAGS)

.PHONY: bench-pgo
bench-pgo: build bin/bench ## refresh cmd/waypoint/default.pgo, the profile that the compiler optimises by
	bin/bench -targets waypoint -rounds 1 -span 6s -out .cache/bench-pgo -profiles .cache/bench-pgo \
		-scenario published,32x1,16x16,grpc-unary,grpc-stream,new-connection,bulk-down,bulk-up,tcp
	$(GO) tool pprof -proto -output .cache/bench-pgo/all .cache/bench-pgo/*.cpu.pprof
	gzip -dc .cache/bench-pgo/all | LC_ALL=C sed 's#$(CURDIR)/#$(shell printf %s '$(CURDIR)/' | tr -c '\n' .)#' | \
		gzip -n9 >cmd/waypoint/default.pgo # without where this machine has the tree

.PHONY: bench-control
bench-control: components build build-controller ## from an API server to the data path: 5,000 routes, changes live, churn, memory (BENCHFLAGS=-routes=500 for less)
	$(GO) build -o bin/bench-control ./benchmarks/control/run
	bin/bench-control -bin $(LAB)/bin $(BENCHFLAGS)

.PHONY: bin/bench
bin/bench:
	$(GO) build -o $@ ./benchmarks

.PHONY: fuzz
fuzz: ## every fuzz target in the tree; FUZZTIME seconds in all, shared out evenly
	tools/fuzz.sh $(FUZZTIME) $(PACKAGES)

.PHONY: conformance
conformance: export H2SPEC := $(CURDIR)/$(TOOLS)/h2spec
conformance: export WAYPOINT := $(CURDIR)/bin/waypoint
conformance: $(TOOLS)/h2spec build ## h2spec, curl, nghttp, h2load, grpc-go, WebSocket against bin/waypoint and internal/h2
	$(GO) test -count=1 -v -run '^TestH2spec$$' ./internal/h2
	$(GO) test -count=1 -v ./test/conformance

# What test/meshlab runs, built once and again when its sources change: ten minutes on two cores with an empty
# build cache.
LAB        := $(HOME)/.cache/meshlab
COMPONENTS ?= etcd kube-apiserver kube-controller-manager kubectl pilot-discovery client server render wds suite.test minikubelet

.PHONY: components
components: ## a Kubernetes control plane, istiod and a kubelet from their Go modules, kept in ~/.cache/meshlab/bin
	BIN=$(LAB)/bin test/meshlab/build.sh --missing $(COMPONENTS)

.PHONY: e2e
e2e: export WAYPOINT_E2E_BIN := $(LAB)/bin
e2e: export WAYPOINT_CONTROLLER := $(CURDIR)/bin/waypoint-controller
e2e: export WAYPOINT := $(CURDIR)/bin/waypoint
e2e: export KUBECTL_WAYPOINT := $(CURDIR)/bin/kubectl-waypoint
e2e: components build build-controller build-kubectl ## controller and waypoints beside a real API server and istiod; needs root (PACKAGES=./test/e2e/mesh for some)
	$(GO) test -count=1 -v -timeout 10m $(TESTFLAGS) $(if $(filter ./...,$(PACKAGES)),./test/e2e/...,$(PACKAGES))

.PHONY: charts
charts: export HELM := $(CURDIR)/$(TOOLS)/helm
charts: $(TOOLS)/helm ## lint and golden renders of deployments/chart, and the plain manifests against it (CHARTFLAGS=-update rewrites them)
	$(GO) test -count=1 ./test/charts $(CHARTFLAGS)

.PHONY: manifests
manifests: ## rewrite deployments/manifests from deployments/chart
	$(MAKE) --no-print-directory charts CHARTFLAGS='-run TestManifests -update'

.PHONY: images
images: export IMAGES := $(CURDIR)/dist
images: ## dist/: OCI layouts of both images for amd64 and arm64, without a daemon or a base image (ARCHITECTURES=amd64 for one)
	rm -rf .cache/images
	for arch in $(ARCHITECTURES); do for program in $(PROGRAMS); do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' \
			-o .cache/images/linux-$$arch/$$program ./cmd/$$program || exit 1; \
	done; done
	$(GO) -C tools/images run . -programs $(CURDIR)/.cache/images -out $(IMAGES) -version $(VERSION) -commit $(COMMIT) -created $(CREATED)
	$(GO) -C tools/images test -count=1 ./...

.PHONY: push
push: ## copy dist/ to REGISTRY=registry.example.com/mesh, with the credentials of ~/.docker/config.json
	@test -n "$(REGISTRY)" || { echo "make push REGISTRY=registry.example.com/mesh: where to?"; exit 2; }
	$(GO) -C tools/images run . -out $(CURDIR)/dist -push $(REGISTRY) -version $(VERSION)

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## static checks and formatting
	$(TOOLS)/golangci-lint run

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint ## rewrite the sources as `make lint` wants them
	$(TOOLS)/golangci-lint fmt

.PHONY: vuln
vuln: $(TOOLS)/govulncheck ## known vulnerabilities in what we link; needs vuln.go.dev
	$(TOOLS)/govulncheck ./...

.PHONY: generate
generate: ## run every go:generate line
	$(GO) generate ./...

.PHONY: docs
docs: ## rewrite the generated parts of docs/
	$(GO) test -count=1 ./internal/archtest ./internal/telemetry ./internal/admin ./cmd/waypoint ./cmd/waypoint-controller -run TestDocs -update

.PHONY: tools
tools: $(addprefix $(TOOLS)/,$(TOOL_NAMES)) ## build the linters and test tools of tools/go.mod into .cache/bin

# One recipe builds any tool: the package of each is the `tool` line of tools/go.mod that ends in its name.
# Minutes for golangci-lint on two cores the first time, seconds afterwards.
$(TOOLS)/%: tools/go.mod tools/go.sum
	cd tools && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o ../$@ \
		$$($(GO) list tool | grep '/$*$$')

.PHONY: clean
clean: ## remove what was built, the tools too
	rm -rf bin dist .cache
