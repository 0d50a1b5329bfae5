# Targets for users first, for developers below. Every target is a few lines; what is longer lives in scripts/.
SWARM_CACHE ?= $(HOME)/.cache/swarmd
export SWARM_CACHE
export GOTOOLCHAIN := local
TOOLS := $(SWARM_CACHE)/tools/$(shell cat scripts/tools/go.mod scripts/tools/go.sum | sha256sum | cut -c1-16)
GOFLAGS_BUILD := -trimpath

.DEFAULT_GOAL := build
.PHONY: build demo test check help bench fmt lint vet ranks generate drift tools wheel python-check python-test go-test test-long clean

build: ## build bin/swarmd and bin/swarmctl (the default)
	CGO_ENABLED=0 go build $(GOFLAGS_BUILD) -o bin/ ./cmd/swarmd ./cmd/swarmctl

demo: build ## train the digits example across three peers that share no data, and show the result
	scripts/demo

test: build ## run every test that this machine can run
	scripts/test

check: tools ## static checks: format, vet, lint, import ranks, drift of generated files
	scripts/check

bench: build ## time merges of a synthetic model through the real path
	bin/swarmctl bench merge --peers 4 --size 100MiB --rounds 5

wheel: ## build the Python package into dist/
	$$(python/tools/env.sh dev) -m pip wheel --no-deps -w dist ./python

fmt: tools ## format the Go code
	$(TOOLS)/golangci-lint fmt

lint: tools ## run the linters
	$(TOOLS)/golangci-lint run

generate: tools ## make generated files again: API code, command reference
	scripts/generate

test-long: build ## tests too long for every change
	scripts/test long

tools: $(TOOLS)/.done

$(TOOLS)/.done: scripts/tools/go.mod scripts/tools/go.sum
	mkdir -p $(TOOLS)
	cd scripts/tools && go build -o $(TOOLS)/ tool
	touch $@

clean: ## remove what was built here (the shared cache stays)
	rm -rf bin out dist

help: ## list these targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

tools-dir:
	@echo $(TOOLS)
