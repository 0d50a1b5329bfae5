# Targets for users first, for developers below. Every target is a few lines; what is longer lives in scripts/.
SWARM_CACHE ?= $(HOME)/.cache/swarmd
export SWARM_CACHE
export GOTOOLCHAIN := local
# Linters and generators are built once for each content of their module, into a cache that clones share.
TOOLS := $(SWARM_CACHE)/tools/$(shell cat scripts/tools/go.mod scripts/tools/go.sum | sha256sum | cut -c1-16)

.DEFAULT_GOAL := build
.PHONY: build spire image demo test check bench wheel web test-go test-python test-long chaos walks fuzz fmt lint meta generate drift tools tools-dir clean help

build: ## build bin/swarmd and bin/swarmctl (the default); SIMD=0: without vector kernels, SIMD=1: never without
	SIMD=$(SIMD) scripts/build bin

spire: ## build SPIRE's server and agent into bin/ (or link those on PATH)
	scripts/spire bin

image: build ## build the container images on Debian, or on another image: make image BASE=NAME
	scripts/images

demo: build ## train the digits example across three peers that share no data, and show the result
	scripts/demo

test: build ## run every test that this machine can run
	scripts/test

check: tools ## static checks: format, vet, lint, repository rules, Python, drift of generated files
	scripts/check

bench: build ## time merges of a synthetic model through the real path
	bin/swarmctl bench merge --peers 4 --size 100MiB --rounds 5

wheel: ## build the Python package into dist/
	"$$(python/tools/env.sh dev)" -m build --wheel --no-isolation --outdir dist python

web: ## build the pages, which are committed: internal/swci/dashboard/page and internal/swci/report/page
	scripts/web build

test-go: build ## run the Go tests only
	scripts/test go

test-python: build ## run the Python tests only
	scripts/test python

FUZZTIME ?= 10m

fuzz: ## fuzz every target for FUZZTIME (10m) each: hours in all
	scripts/fuzz $(FUZZTIME)

test-long: build ## run the tests that are too long for every change
	scripts/test long

MINUTES ?= 20
SEED ?= $(shell date +%s)

chaos: build ## run a swarm under random faults: make chaos MINUTES=20 SEED=7 ARGS=-help; better as root
	go build -o bin/chaos ./internal/chaos/cmd/chaos
	bin/chaos -minutes $(MINUTES) -seed $(SEED) $(ARGS)

walks: ## try swarmd as three new users would, on clean machines, and count commands and seconds
	python3 scripts/walks

fmt: tools ## format Go and Python
	$(TOOLS)/golangci-lint fmt
	cd python && "$$(tools/env.sh dev)" -m ruff format .

lint: tools ## run the Go linters
	$(TOOLS)/golangci-lint run

meta: ## check the repository's own rules: import ranks, sizes, documents
	go test -count=1 ./internal/meta

generate: tools ## make generated files again: API code, command reference
	scripts/generate

drift: tools ## fail if a generated file is not what its source makes
	scripts/drift

tools: $(TOOLS)/.done ## build linters and generators into the cache

$(TOOLS)/.done: scripts/tools/go.mod scripts/tools/go.sum
	scripts/build-tools $(TOOLS)

tools-dir: ## print where the tools are
	@echo $(TOOLS)

clean: ## remove what was built here (the shared cache stays)
	rm -rf bin out dist

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 14
