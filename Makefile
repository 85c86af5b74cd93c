# Souk: a market for LLM inference. `make help` lists what there is.

SHELL      := /bin/bash
GO         ?= go
export CGO_ENABLED ?= 0
ARGS       ?=
FUZZTIME   ?= 10s
SOAKTIME   ?= 10m
STREAMTIME ?= 60s
RUNS       ?= 6
EVENTTIME  ?= 5m
COMMANDS   := $(notdir $(patsubst %/main.go,%,$(wildcard cmd/*/main.go)))
PROGRAMS   := $(COMMANDS:%=bin/%)
# What measures a market is a module of its own: who runs one neither links nor fetches its plots.
LAB        := integration/lab
# So is what reads the alerts as Prometheus does.
ALERTS     := integration/alerts
# And what reads the Helm chart as Kubernetes does.
CHART      := integration/helm
VERSION    := $(shell git describe --always --dirty --tags 2>/dev/null || echo unknown)
LDFLAGS    := -s -w -X souk/cmd/daemon.linked=$(VERSION)
SOURCES    := $(shell find . -name '*.go' -not -path './.git/*') go.mod go.sum $(LAB)/go.mod $(LAB)/go.sum $(LAB)/go.work

# The race detector needs cgo, and cgo a C compiler; everything else does without.
CC_FOUND   := $(shell command -v $${CC:-cc} 2>/dev/null || command -v gcc 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help run cluster test test-short fleet soak proofs bench pages dashboards alerts goldens fuzz lint build cross release image deployment arm64 clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(PROGRAMS) ## bring a market up, play dialogues through it, check its ledger; ARGS=--exit ends then, ARGS="--vllm URL" uses real engines
	@bin/souk run $(ARGS)

cluster: $(PROGRAMS) ## the same with every part a process of its own, from the files in deploy/local; ARGS=--exit ends then with the verdict
	@bin/souk cluster $(ARGS)

build: $(PROGRAMS) bin/lab ## every command into bin/, static

bin/%: $(SOURCES)
	@mkdir -p bin
	@echo "building $@"
	@$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

bin/lab: $(SOURCES)
	@mkdir -p bin
	@echo "building $@"
	@$(GO) -C $(LAB) build -trimpath -ldflags '$(LDFLAGS)' -o $(CURDIR)/$@ .

cross: ## build every command for linux on amd64 and arm64, into bin/ARCH
	@for arch in amd64 arm64; do echo "linux/$$arch"; mkdir -p bin/$$arch; \
	  GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/$$arch/ ./cmd/... || exit 1; \
	  GOOS=linux GOARCH=$$arch $(GO) -C $(LAB) build -trimpath -ldflags '$(LDFLAGS)' -o $(CURDIR)/bin/$$arch/ . || exit 1; \
	done

release: bin/lab ## what users download, for linux and darwin, into bin/release: VERSION=v0.1.0, KEY=an SSH key to sign with; built twice and compared, which takes some ten minutes
	@rm -rf bin/release
	@bin/lab release $(VERSION) --out bin/release --again $(if $(KEY),--key $(KEY))

image: ARCH := $(shell $(GO) env GOHOSTARCH)
image: ## an image of every command but lab from deploy/Dockerfile, nothing fetched; ARCH=arm64 for another machine, BUILDER=docker|podman|buildah
	@mkdir -p bin/image/$(ARCH)
	@GOOS=linux GOARCH=$(ARCH) CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/image/$(ARCH)/ $(COMMANDS:%=./cmd/%)
	@deploy/image.sh $(ARCH) bin/image/$(ARCH) souk

deployment: $(PROGRAMS) ## judge deploy/: systemd units, nginx and Envoy examples, the compose file, the Helm chart, and a market of containers; what has no tool here is skipped
	@if deploy/image.sh --builder >/dev/null; then $(MAKE) --no-print-directory image; fi
	@for what in units proxies compose chart play; do deploy/check.sh $$what bin || [ $$? -eq 77 ] || exit 1; done

# What a record's bytes depend on, and quotes that become part of one.
PURE := market market/flow market/certify ledger hub/predict hub/predict/tree hub/regime hub/prefix
PURE += hub/queue hub/round agentd

arm64: ## the same record gives the same bytes on arm64: the tests of the pure parts, under qemu-aarch64 where this is another machine
	@emulator=; if [ "$$(uname -m)" != aarch64 ]; then \
	  emulator=$$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || { echo "no qemu-aarch64 found (apt-get install qemu-user): skipped"; exit 0; }; fi; \
	at=$$(mktemp -d); trap 'rm -rf "$$at"' EXIT; \
	for p in $(PURE); do \
	  run=; if [ $$p = agentd ]; then run='-test.run=OnEveryMachine'; fi; \
	  GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) test -c -o "$$at/test" ./$$p || exit 1; \
	  echo "linux/arm64 $$p"; (cd $$p && $$emulator "$$at/test" $$run -test.timeout 10m) || exit 1; \
	done

# These start no goroutine, nor do their tests (TestNoGoroutine): the race detector has nothing to find in them,
# and takes five to fifteen times as long.
ALONE := hub integration/machines integration/house
ALONE += agentd agentd/holdings agentd/kvevent agentd/policy agentd/policy/adapter agentd/policy/guard
ALONE += bus bus/exact bus/likeness bus/openai bus/policy bus/reader bus/bounded bus/learned
ALONE += classifier classifier/model cmd/choices
ALONE += hub/admission hub/queue hub/round hub/policy hub/policy/ahead hub/policy/kvcache hub/policy/fair
ALONE += hub/policy/pd hub/predict hub/predict/tree hub/prefix hub/quality hub/regime hub/regime/router
ALONE += hub/account hub/config hub/fleet hub/forecast hub/meeting hub/prewarm hub/report hub/status
ALONE += hub/tariff hub/turn hub/settle ledger ledger/checkpoint ledger/treasury ledger/tree ledger/witness
ALONE += market/certify market/flow agentd/vllmsim/kv bus/life
LAB_ALONE := . ahead cachesage/sage compare grafana load/proc page papers prose release traces train

# These start some only to clear, or to play, several rounds or runs side by side, which share nothing. That they
# do share nothing is what a test of each named SideBySide has the race detector look for, and only that one runs
# with it. Those of LAB_BESIDE have one test together, in a package of that name: one program is linked for all.
SIDE := market
LAB_SIDE := games iemas truth
LAB_BESIDE := virtual cachesage economics forecast gpus hints learned thousand

# Their long tests compute, or wait, on what their short ones show the race detector, too: it has these alone,
# the rest runs without it, and make soak has all of them with it.
LONG := integration/gateway bus/etcdreg bus/natsbus agentd/vllmsim classifier/serve cmd/ledger/cli ledger/journal

# These start what others' tests show the race detector: a market that stock clients ask, daemons as their mains
# wire them, markets of processes, which it does not see. make soak has the first of them with it.
OTHERS := integration/clients cmd/agentd cmd/classifier cmd/gateway cmd/hub cmd/treasury
LAB_OTHERS := fleet soak

# These compute for long on what the rest of their packages shows the race detector, too: they run without it.
HEAVY := TestOneEngineOfEightFails TestStopStringsAcrossTheSeam TestAnAnswerGoesOnAtEveryToken
HEAVY += TestCopiesAtRandom TestAKeyThatTurnsLosesNoBelief TestNobodyLearnsAnothersPrompt
HEAVY += TestNobodyLearnsWhatIsMailedToAnother TestNobodyLearnsByRefusalsWhatIsMailedToAnother
HEAVY += TestNobodyLearnsByPayingWhatIsMailedToAnother TestSoukScripts TestDeployment
HEAVY += TestEnginesThatMisbehave TestATaskThatKillsEnginesKillsFew TestATaskLeavesASilentEngine
HEAVY += TestMaxTokensOfAnAnswerThatGoesOn TestWhatCannotGoOn TestOldCopiesOfAHub TestOldCopiesOfATreasury
HEAVY += TestAnOlderHubWhoseTreasuryIsDoubted TestAMonthIsClosedByThePage TestThePictureFitsTheScreen
HEAVY += TestSumsAreTheSameByTheFilesBesideTheLog TestSumsAreWhatWasPaid TestAQuotaThatIsUsedUpHeals
HEAVY += TestHalvesOfRequestsAreBounded TestWhoReadsNothingIsCutOff TestAServerOfAnotherKindIsSold
HEAVY += TestJournalsThatArePutBackTogetherAreNotLed TestACancelAtAnyMomentPaysForThePrompt
HEAVY += TestQuotesThatAreNone
HEAVY_IN := integration cmd/souk integration/hostile integration/knowing ledger/inspect bus/embedded

# The longest first, that none of them is waited for alone at the end.
FIRST := integration cmd/souk

# make lint vets. Many tests wait more than they compute: two parts run at once, three packages of each, on two
# cores, too. One is with the race detector and one is without, so that neither compiles what the other does, and
# what computes most is last, with its longest package first.
TEST  := test -vet=off -timeout 10m
RACE  := $(TEST) -race "-gcflags=souk/...=-dwarf=false -l"
PARTS := test-race test-plain lab-race lab-plain
.PHONY: $(PARTS) short-market short-lab

# A quarter of the processor time goes into compiling and linking: nobody debugs these programs, and the compiler,
# which ends soon, needs to collect no garbage. What others wrote, and what only wires parts and tests them,
# computes little: it is compiled without inlining, which takes a quarter less, and under the race detector all
# is, which is no slower for it. What learns and plays in virtual time does compute. What is compiled names no
# directory, so that one clone finds what another has compiled; where the standard library is, a test of
# integration/house asks then. Tests that build programs hand this on. A test that collects garbage a fourth as
# often as usual takes a sixth less time.
TOOLS := "-ldflags=-s -w" "-gcflags=all=-dwarf=false -l" -gcflags=std=-dwarf=false -gcflags=souk/...=-dwarf=false
SHELLS := cmd integration hub/serve agentd/serve agentd/vllm classifier/serve ledger/treasury/serve
SHELLS += $(addprefix bus/,client embedded etcdreg follow gateway natsauth natsbus)
TOOLS += $(patsubst %,"-gcflags=souk/%/...=-dwarf=false -l",$(SHELLS))
TOOLS += $(patsubst %,-gcflags=souk/%=-dwarf=false,$(addprefix $(LAB)/,train traces virtual))
TOOLS += -trimpath "-toolexec=env GOGC=off GOMEMLIMIT=1GiB"
test test-short: export GOROOT := $(shell $(GO) env GOROOT)
test test-short: export GOFLAGS := $(GOFLAGS) $(TOOLS)
test test-short: export GOGC := 400

# $(call plain,FOLDER,PACKAGES,HEAVY_IN): the tests of a module that run without the race detector.
space := $() $()
NAMES := ^($(subst $(space),|,$(strip $(HEAVY))))$$

define plain
$(GO) -C $(1) $(TEST) -p 3 -skip SideBySide $(addprefix ./,$(2))
$(if $(3),$(GO) -C $(1) $(TEST) -p 3 -run '$(NAMES)' $(addprefix ./,$(3)))
endef

# $(call race,FOLDER,MODULE,ALONE,SIDE,LONG,FIRST): those that run with it.
define race
CGO_ENABLED=1 $(GO) -C $(1) $(RACE) -p 3 -skip '$(NAMES)' $(addprefix $(2)/,$(6)) $(filter-out $(patsubst %/.,%,$(addprefix $(2)/,$(3) $(4) $(5) $(6))),$(shell $(GO) -C $(1) list ./...))
$(if $(5),CGO_ENABLED=1 $(GO) -C $(1) $(RACE) -p 3 -short $(addprefix ./,$(5)))
CGO_ENABLED=1 $(GO) -C $(1) $(RACE) -p 3 -run SideBySide $(addprefix ./,$(4))
endef

test-race:
	$(call race,.,souk,$(ALONE) $(OTHERS),$(SIDE),$(LONG),$(FIRST))
test-plain:
	$(GO) -C $(ALERTS) $(TEST) .
	$(call plain,.,$(LONG) $(OTHERS) $(SIDE) $(ALONE),$(HEAVY_IN))
lab-race:
	$(call race,$(LAB),souk/$(LAB),$(LAB_ALONE) $(LAB_BESIDE) $(LAB_OTHERS),$(LAB_SIDE))
lab-plain:
	$(call plain,$(LAB),$(LAB_OTHERS) $(LAB_BESIDE) $(LAB_SIDE) $(LAB_ALONE))

test: ## every test, of the lab, too; what has goroutines under the race detector, where a C compiler is found
ifeq ($(CC_FOUND),)
	@echo "no C compiler found: the tests run without the race detector"
	$(GO) $(TEST) -p 4 ./...
	$(GO) -C $(LAB) $(TEST) -p 4 ./...
	$(GO) -C $(ALERTS) $(TEST) .
else
	@$(MAKE) --no-print-directory -k -j2 $(PARTS)
endif

test-short: ## the same without the race detector and without what is long; each package has a part in it
	@$(MAKE) --no-print-directory -k -j2 short-market short-lab

# Much of the time of the first part is links, and waits of its longest tests, which the other fills.
short-market:
	$(GO) $(TEST) -p 4 -short $(addprefix ./,integration/gateway $(FIRST) bus/embedded hub) ./...
short-lab:
	$(GO) -C $(LAB) $(TEST) -p 2 -short ./...
	$(GO) -C $(ALERTS) $(TEST) .

fleet: ## every part as a process of its own: killed, stopped, cut off, without disk or clock; every client's last word against the journals
	SOUK_FLEET=1 $(GO) -C $(LAB) test -count=1 -timeout 25m ./fleet

soak: build ## a thousand streams for STREAMTIME (60s); SOAKTIME (10m) of mixed load with kills and outages, and as long with every policy on; dialogues RUNS (6) times, each on the data of the last; EVENTTIME (5m) of beliefs held against caches; fifty dead hubs; 120,000 guesses at others' prompts; a million forged outcomes, counted by kind; 300 markets whose directories are copied at random; 250 journals that an insider rewrites; the web console in Chromium, where there is one; 600 storms over a hub and 100 over a market; what is too long for the race detector in test
	bin/lab bench --only streams --streaming $(STREAMTIME) --runs 1
	bin/lab soak --duration $(SOAKTIME) --outages $(ARGS)
	bin/lab soak --duration $(SOAKTIME) --outages --policies $(ARGS)
	for n in $$(seq $(RUNS)); do bin/souk run --exit || exit 1; done
	$(if $(shell command -v python3),python3 integration/accounting/accept.py bin/ledger $${SOUK_DATA:-souk-data})
	bin/lab soak --duration $(EVENTTIME) --events
	SOUK_SOAK=1 $(GO) -C $(LAB) test -count=1 -timeout 30m ./fleet
	SOUK_SOAK=1 $(GO) test -count=1 -timeout 30m -v -run TestForgedOutcomes ./market
	$(GO) test -count=1 -timeout 30m -run TestAWholeMarketWhateverIsLost ./integration/machines -args -whole.runs 100
	SOUK_SOAK=1 $(GO) test -count=1 -run 'TestStorm|TestNobodyLearns|TestNothingTells|TestD6|TestCopiesAtRandom|TestQuotesThatAreNone|TestAnInsider|TestInABrowser' ./hub ./cmd/web ./integration/hostile ./integration/gateway ./integration ./integration/machines
	$(if $(CC_FOUND),CGO_ENABLED=1 $(GO) $(RACE) -p 4 -count=1 $(addprefix ./,$(LONG) $(HEAVY_IN) $(OTHERS)))

proofs: ## the mechanism's property tests a hundred times over: a million rounds by brute force, two million forged outcomes and more
	SOUK_SOAK=1 $(GO) test -timeout 0 ./market/...

bench: build ## measure, and end with one table: a row per bar, asked and measured
	@bin/lab bench $(ARGS)

pages: build ## every page of integration/results anew, and the front page: forty minutes of processor time; ARGS="--only crowd,games" makes these, ARGS=--clock also those by the clock
	@bin/lab pages $(ARGS)

dashboards: bin/lab ## deploy/grafana anew: dashboards for Grafana, rules for Prometheus
	@bin/lab grafana

alerts: build ## each alert of deploy/grafana fires and falls silent by Prometheus's own engine, which is fetched and compiled, some minutes; nearly all in running markets, by faults; a new operator's first half hour
	SOUK_BIN=$(CURDIR)/bin $(GO) -C $(ALERTS) test -count=1 -timeout 40m ./fire

# Tests that compare with files in testdata which -update writes anew.
GOLDEN := market market/flow ledger hub hub/regime/router hub/predict hub/predict/tree
GOLDEN += bus/reader classifier

goldens: ## what tests compare with, written anew: hashes, bytes, scripts, figures; git diff shows what changed
	$(GO) test -count=1 $(GOLDEN:%=./%) -run 'EveryMachine|BytesOf|Explanation$$|AsText|Scripts|Placing' -update
	cd $(LAB) && $(GO) test -count=1 . ./cachesage/sage -run 'Figures|EveryMachine' -update

fuzz: ## every fuzz target for FUZZTIME (10s)
	@set -e; grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do \
	  dir=$$(dirname "$$file"); \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
	    echo "$$dir $$target"; \
	    $(GO) -C "$$dir" test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) .; \
	  done; \
	done

lint: ## gofmt, go vet, staticcheck where it is installed, and how much code there is
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "not formatted: $$bad"; exit 1; fi
	$(GO) vet ./...
	$(GO) -C $(LAB) vet ./...
	$(GO) -C $(ALERTS) vet .
	$(GO) -C $(CHART) vet .
	@if command -v staticcheck >/dev/null; then staticcheck ./... && cd $(LAB) && staticcheck ./...; else echo "staticcheck is not installed: skipped"; fi
	@$(GO) test -count=1 -run 'TestSize$$' -v ./integration/house | sed -n 's/.*size_test.go:[0-9]*: //p;/^FAIL/q1'

clean: ## remove bin/
	rm -rf bin
