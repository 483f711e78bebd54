# Two commands do everything on a fresh Debian 12 or 13 with Go and make:
#   make demo    the main job, seen from the outside
#   make test    the tests, against the real components; the slowest are in make test-long
# Both install what is missing into the project's own prefix and cache.

SHELL      := /bin/bash
GO         ?= go
BIN        := bin/diapause
VERSION    ?= 0.1.0-dev
MODULES    := schemas events objectstore workers services e2e
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE    := golang.org/x/tools/cmd/deadcode@v0.52.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: build demo test test-long robustness setup setup-test verify lint screenshots vuln sbom dist bench bench-million compat compose-bases compose-check compose-build compose-up compose-demo compose-down clean help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

build: ## bin/diapause, one static file
	GO="$(GO)" services/cmd/build.sh $(BIN) -ldflags "-s -w -X main.version=$(VERSION)"

setup: ## what running needs: CRIU in a prefix of its own
	@e2e/setup/root.sh workers/criu/install/install.sh
	@e2e/setup/root.sh workers/criu/install/build.sh || echo "going on with criu as it is released: what it can't bring back is in workers/criu/patches/README.md" >&2

setup-test: setup ## what the tests need besides
	@e2e/setup/root.sh e2e/setup/test.sh

demo: setup build ## the main job, from a running program to its image and back (KEEP=1 leaves it up)
	@KEEP="$(KEEP)" e2e/setup/root.sh e2e/demo/run.sh

# verify has vetted it all; trimmed paths let clones share what is compiled; tests wait more
# than they compute. The two longest packages are among the first, which leaves no slot idle
# at the end.
test: setup-test verify ## all tests but the slowest, real components included
	@e2e/setup/root.sh env GORACE=atexit_sleep_ms=50 $(GO) test -race -trimpath -ldflags=-w -vet=off -p 2 -parallel 4 -count=1 -timeout 40m $(patsubst %,./%/...,workers services objectstore events schemas e2e)

test-long: setup-test ## all tests, the slowest too, in more rounds; the whole compatibility run, containers on other engines
	@e2e/setup/root.sh e2e/compat/install.sh --all
	@e2e/setup/root.sh workers/criu/install/zdtm.sh
	@e2e/setup/root.sh e2e/compose/install.sh
	@e2e/setup/root.sh e2e/compose/images.sh
	@e2e/setup/root.sh e2e/observe/install.sh
	@DIAPAUSE_LONG=1 e2e/setup/root.sh $(GO) test -timeout 4h -p 1 work
	@e2e/setup/root.sh workers/docker/dockertest/install.sh --newest
	@for engine in current containerd newest; do \
		DIAPAUSE_TEST_ENGINE=$$engine e2e/setup/root.sh $(GO) test -race -count=1 -timeout 1h -p 1 ./workers/docker/... ./e2e/containers || exit 1; \
	done

TIME ?= 10m
SEED ?= 0
robustness: setup-test ## histories of clients and faults, checked against a model (TIME=10m SEED=n)
	@e2e/setup/root.sh $(GO) test -race -count=1 -timeout 0 -v ./e2e/robustness -run TestHistories -robustness.time $(TIME) -robustness.seed $(SEED)

verify: ## modules stand alone and are tidy, formatted and vetted
	@e2e/setup/verify.sh $(MODULES)

lint: ## staticcheck, and functions that nothing calls, or tests alone
	$(GO) run $(STATICCHECK) $(MODULES:%=./%/...)
	@unused=$$($(GO) run $(DEADCODE) -test $(MODULES:%=./%/...) && cd services && $(GO) run $(DEADCODE) ./cmd/diapause) || exit; \
		[ -z "$$unused" ] || { echo "$$unused"; exit 1; }

screenshots: setup-test ## the pictures of the console that the documents show
	@e2e/setup/root.sh $(GO) test -count=1 ./e2e/console -run TestPictures -update

VULNDB ?=
VULNDB_DIGEST ?=
vuln: ## govulncheck, with its database of today, or the last one fetched, or VULNDB=DIR, of VULNDB_DIGEST if that is given
	$(GO) run ./e2e/supply/vuln -tool $(GOVULNCHECK) -db "$(VULNDB)" -digest "$(VULNDB_DIGEST)" $(MODULES)

sbom: build ## what is linked into bin/diapause: a CycloneDX bill of materials, and the licences
	$(GO) run ./e2e/supply/cmd -version $(VERSION)

dist: ## a Debian package and a tarball in dist/, with checksums and a bill of materials (VERSION=1.2.3)
	GO="$(GO)" services/packages/build.sh $(VERSION) dist

bench: setup-test build ## suspend and resume by stage, beside what people use today
	@e2e/setup/root.sh e2e/bench/install.sh
	@e2e/setup/root.sh $(GO) run ./e2e/bench/cmd

N ?= 1000000
bench-million: ## deciding about a million sessions: rates, memory, restart, lateness (N=50000 is a quick look)
	$(GO) build -o .build/million ./e2e/million/cmd
	.build/million -n $(N) $(if $(filter 1000000,$(N)),-out e2e/million/RESULTS.md)

compat: setup-test build ## suspend and resume real programs ten times each, and write the table
	@e2e/setup/root.sh e2e/compat/install.sh --all
	@e2e/setup/root.sh $(GO) run ./e2e/compat/cmd

compose-bases: ## the base images of compose/, where no registry can be reached
	@e2e/setup/root.sh compose/bases.sh

compose-check:
	@compose/check.sh

compose-build: compose-check ## the images of a fleet
	docker compose --project-directory compose build

compose-up: compose-build ## a fleet on this machine: three NATS nodes, a store, schedulers, APIs, two workers
	docker compose --project-directory compose up --detach --wait

compose-demo: ## a session outlives the worker that it runs on, whose container is killed
	@compose/demo.sh

compose-down: ## stop the fleet, and remove its containers, networks and volumes
	docker compose --project-directory compose --profile tools --profile observe --profile chaos down --volumes --remove-orphans

clean: ## remove what was built
	rm -rf bin dist .build
