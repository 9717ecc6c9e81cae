# Needs Go; test-race and bench-peers a C compiler too. `make help` lists the targets.

GO ?= go
PYTHON ?= python3
# A time or, with x behind it, a number of executions.
FUZZTIME ?= 50000x
BENCH ?= .
BENCHTIME ?= 200ms
BENCHCOUNT ?= 1
BENCHSTAT = golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
FAKE_GCS = github.com/fsouza/fake-gcs-server@v1.56.1
WAZERO = github.com/tetratelabs/wazero/cmd/wazero@v1.12.0

# What must build beside the machine at hand: other mappings, another word size, another byte order. What has none (wasm) and arm64
# have tests of their own.
PLATFORMS = windows/amd64 darwin/arm64 freebsd/amd64 linux/386 linux/s390x

# What also has to work where nothing can be mapped and there is one thread, and what of it
# the two systems do differently. Formats ask no system for anything.
WASM = ./internal/atomicfile ./mmapio ./dequant/... ./quantize ./shard ./loader/... ./convert
WASI = ./internal/atomicfile ./mmapio ./shard ./loader
# Tests of convert that compute most: every scheme to every format. Others of convert run the same goroutines.
EVERY_SCHEME = ^Test(CopiesKeepTheirMethod|Checkpoints)$$
# Tests that compute most under the race detector, in goroutines that other tests start too.
RACED_BY_OTHERS = $(EVERY_SCHEME)|^Test(Claims|Compress(Memory|Reencoded)?|Compressed(EveryWay|Reads|Segments)|ExpandAcrossReads|ExpandEveryWay|FaultsOf(EveryMethod|LogicalTensors)|FileOfMany|FootprintByHeads|FootprintHostile|Grouped|KilledFill|Memory|Multiply|PackedEveryWay|Quantized(Damage|Edges|Lies)|ReencodeToI8|Scaled|Truncations|Typed|VerifyBlocks|WriteAs|Writer|ZeroedValues|ZeroRows)$$
# Tests of loader that ask the system for nothing but a file: SHORT=-short and WASI leave them out. WASI with SHORT=-short leaves out loader.
COMPUTES = Compressed|Expand|FromAfar|LZ4|Logical|Multiply|Packed|Quantized|Remote|Scale|Trust|Verify(Blocks|Many)|View|WarmFar

# What maps, or reads what is mapped, under Wine, and what Wine lacks of Windows: it truncates no NUL.
WINE ?= $(firstword $(shell command -v wine wine64 2>/dev/null))
WINDOWS = ./mmapio ./internal/atomicfile ./shard ./layout/... ./scheme ./loader/...
WINE_LACKS = TestAbandonedInPlace

# The packages that start no goroutine (internal/test/lint checks): the race detector has nothing to find
# there. Attacks run under it with FLAGS=-race.
SEQUENTIAL = layout(/([^a].*|apr1|aprender|april))?|scheme|shard|dequant/dot|internal/(block|crcmath|drawing|glob|nearest|report|test/(attack|fuzz|iofault|kerneltest|lint|modeltest|pictures|testmode))|explore/internal/(grid|odd)|cmd/tensormap/internal/(inspection|slice)

# The packages with kernels of several processors.
KERNELS = ./dequant/... ./quantize ./internal/narrow ./internal/moments

.PHONY: help test test-purego test-race test-arm64 test-js test-wasip1 test-windows lint cross fuzz fuzz-hours attack bench bench-gguf bench-peers bench-remote peers-values outside test-kills test-peers test-blob test-remote test-browser web generate ci

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

test: ## all tests
	$(GO) test ./...

test-purego: ## the packages with assembly, without it
	$(GO) test -vet off $(SHORT) -tags purego $(KERNELS) ./internal/lz4block

# Tests of the command run goroutines of other packages, and loader's tests run goroutines of the kernels' packages.
# A process under the race detector sleeps for a second before it ends, and tests start many.
test-race: export GORACE = atexit_sleep_ms=20
test-race: ## the short tests of all that has goroutines under the race detector, with every pointer conversion checked
	$(GO) test -vet off -race -short -skip '$(RACED_BY_OTHERS)' -gcflags=./...=-d=checkptr=2 $$($(GO) list ./... | grep -vE '^[^/]+/[^/]+/[^/]+/($(SEQUENTIAL)|cmd/tensormap|dequant|quantize|internal/(narrow|moments))$$')
	$(GO) test -vet off -short -gcflags=./...=-d=checkptr=2 $(KERNELS)
	for module in metrics examples/embedserver; do (cd $$module && $(GO) test -vet off -race ./...) || exit 1; done

test-arm64: ## the NEON kernels, on this machine under qemu-aarch64 (Debian: qemu-user)
	GOARCH=arm64 $(GO) test -vet off $(SHORT) -exec qemu-aarch64 ./dequant/... ./internal/narrow

test-js: ## the short tests of the library as WebAssembly for browsers, in Node 18 or later; SHORT=-short: of what asks the system
	GOOS=js GOARCH=wasm $(GO) test -vet off -short -skip '$(if $(SHORT),$(COMPUTES),$(EVERY_SCHEME))' \
		-exec "$$($(GO) env GOROOT)/lib/wasm/go_js_wasm_exec" $(if $(SHORT),$(WASI),$(WASM))

test-wasip1: ## the short tests of what asks the system for anything as WebAssembly with WASI preview 1, in wazero
	GOOS=wasip1 GOARCH=wasm $(GO) test -vet off -short -skip '$(COMPUTES)' \
		-exec 'env -u GOOS -u GOARCH $(GO) run $(WAZERO) run -mount=/:/ -env-inherit' $(if $(SHORT),$(filter-out ./loader,$(WASI)),$(WASI))

# One program stays: else Wine ends between two packages, and what the next one starts of it keeps its output open.
test-windows: export WINEDEBUG ?= -all
test-windows: ## the short tests of what maps and of what reads mappings, as programs for Windows in Wine 10 or later (WINE=wine)
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && export GOOS=windows GOARCH=amd64 && \
		if [ -n '$(WINE)' ] && $(GO) test -vet off -c -o "$$dir/probe.exe" ./internal/atomicfile && '$(WINE)' "$$dir/probe.exe" -test.run '^$$' >/dev/null 2>&1; then \
			mkfifo "$$dir/in" && { '$(WINE)' cmd <"$$dir/in" >/dev/null 2>&1 & } && exec 9>"$$dir/in" && \
			$(GO) test -vet off -short -exec '$(WINE)' -skip '$(WINE_LACKS)' $(WINDOWS); \
		else echo 'windows: skipped, no Wine here that runs programs of Go'; fi

lint: ## gofmt, vet, staticcheck, the modules of their own, and unsafe only where it belongs
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'gofmt would change these files'; exit 1; }
	$(GO) vet ./...
	for module in metrics examples/embedserver; do (cd $$module && $(GO) vet ./...) || exit 1; done # test-race tests them
	for module in trust/keyless examples/bert examples/distributed examples/cuda; do (cd $$module && $(GO) vet ./... && $(GO) test -vet off ./...) || exit 1; done
	$(GO) run $(STATICCHECK) ./...
	@! grep -rlE '^\s*(import )?"unsafe"' --include='*.go' . | grep -vE '^\./(mmapio|dequant|quantize|internal/(narrow|moments)|internal/test/kerneltest|bench/peers)/' \
		|| { echo 'these files import unsafe outside mmapio and the kernels'; exit 1; }

cross: ## check the types of code and tests on every platform, and the signatures of arm64's kernels
	cd .ci/typecheck && $(GO) run . -C ../.. $(PLATFORMS)
	CGO_ENABLED=0 GOARCH=arm64 $(GO) vet ./dequant/... ./internal/narrow

fuzz: ## every fuzz target for FUZZTIME; with CORPUS=DIR, on the inputs that are kept there
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
		.ci/fuzz "$(or $(CORPUS),$$dir)" $(FUZZTIME) $$(getconf _NPROCESSORS_ONLN)

fuzz-hours: ## every fuzz target in turns for T of CPU time, on the kept inputs in CORPUS; says executions and CPU seconds of each
	@test -n '$(CORPUS)' || { echo 'say where the inputs are kept: make fuzz-hours CORPUS=DIR T=8h'; exit 2; }
	.ci/fuzz '$(CORPUS)' 1m 1 $(or $(T),1h)

attack: ## attacks on every promise for T in all, ATTACK names some of them (truncate, verbs, …); FLAGS=-race, -tags=noasm
	$(GO) test ./internal/test/attack -run TestAttack -count 1 -timeout 0 $(FLAGS) -v \
		-attack.time $(or $(T),30s) -attack.only '$(ATTACK)'

bench: ## the benchmarks of the whole path and of every kernel as tables, with profiles in bench/out
	@mkdir -p bench/out
	@set -e; for pkg in bench dequant quantize; do \
		$(GO) test ./$$pkg -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -count $(BENCHCOUNT) -benchmem \
			-cpuprofile bench/out/$$pkg.cpu.prof -memprofile bench/out/$$pkg.mem.prof -o bench/out/$$pkg.test \
			> bench/out/$$pkg.txt || { cat bench/out/$$pkg.txt; exit 1; }; \
		$(GO) run $(BENCHSTAT) bench/out/$$pkg.txt; done
	@echo 'profiles: go tool pprof bench/out/PACKAGE.test bench/out/PACKAGE.cpu.prof (PACKAGE: bench, dequant, quantize; mem.prof for memory)'

bench-peers: ## the same work by others side by side: ggml's C (needs gcc and g++; PEERS=-short)
	cd bench/peers && CGO_ENABLED=1 CGO_CFLAGS="-O3 -march=native" CGO_CXXFLAGS="-O3 -march=native" $(GO) test . -run '^$$' -bench 'Expand|Quantize|Dot' -benchtime 31x -timeout 0 $(PEERS)

bench-gguf: ## open a GGUF file, by this module and by other Go readers
	cd bench/peers && CGO_ENABLED=1 $(GO) test . -run '^$$' -bench GGUF

peers-values: ## hold dequant and quantize against ggml's C, 10 million random blocks a type
	cd bench/peers && CGO_ENABLED=1 CGO_CFLAGS="-O3 -march=native -ffp-contract=off" $(GO) test . -v -timeout 0 -blocks 10000000 $(PEERS)

outside: ## hold conversions and signatures against Python's packages, as far as they are there (what to install: testdata/outside)
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(GO) build -o "$$dir/tensormap" ./cmd/tensormap && \
		$(PYTHON) testdata/outside/check_quantized.py "$$dir/tensormap" && \
		$(PYTHON) testdata/outside/check_recipes.py "$$dir/tensormap" && \
		$(PYTHON) testdata/outside/check_conversions.py "$$dir/tensormap" && \
		$(PYTHON) testdata/outside/check_signatures.py "$$dir/tensormap"

test-remote: export PYTHON_ORAS ?= $(PYTHON)
test-remote: export PYTHON_MOTO ?= $(PYTHON)
test-remote: test-peers test-blob ## hold remote against real servers, and against PyPI's huggingface_hub, oras and moto[server] in $(PYTHON)
	PYTHON_HUB=$$(command -v $(PYTHON)) $(GO) test ./remote -run HuggingFaceHub -count 1 -v

bench-remote: ## reading and pulling against curl and plain requests, and cold start against hf download, of PyPI in $(PYTHON)
	TENSORMAP_SPEED=1 PYTHON_HUB=$$($(PYTHON) -c 'import huggingface_hub, sys; print(sys.executable)' 2>/dev/null) \
		$(GO) test ./remote -run 'TestSpeed|TestColdStart' -count 1 -v

test-kills: ## kill 200 processes while they fill a cache, and check what they leave
	TENSORMAP_KILLS=200 $(GO) test ./remote -run KilledFill -count 1 -v -timeout 30m

# Tests a module that has much to download, or says that it cannot.
define module
	@cd $(1) && if $(GO) list -deps -test . >/dev/null 2>&1; then $(GO) test -vet off -count 1 $(2) .; \
		else echo "$(1): skipped, its modules cannot be had here"; fi
endef

test-peers: ## hold remote against the reference registry, crane, Ollama's code and an S3 gateway, from Go's module proxy
	$(call module,remote/internal/peers)

test-blob: ## test what opens Google's and Azure's buckets, a module that takes minutes to compile, against fake-gcs-server and Azurite (npm; AZURITE=azurite-blob)
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cd remote/blob && if ! $(GO) list -deps -test . >/dev/null 2>&1; then \
			echo 'remote/blob: skipped, its modules cannot be had here'; exit; \
		fi; \
		GOBIN=$$dir $(GO) install $(FAKE_GCS) && export FAKE_GCS=$$dir/fake-gcs-server || echo 'Google: skipped, fake-gcs-server cannot be had here'; \
		command -v "$${AZURITE:=azurite-blob}" >/dev/null && export AZURITE || { AZURITE=; echo 'Azure: skipped, AZURITE names no azurite-blob'; }; \
		$(GO) vet . && $(GO) test -count 1 .

WEB = web/dist
WEB_FLAGS = -trimpath
# The page's own policy. Headers cover the worker: web/README.md has them.
WEB_POLICY = default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'

web: ## write the page that reads models in the browser, to web/dist: static files to publish
	@mkdir -p '$(WEB)'
	GOOS=js GOARCH=wasm $(GO) build $(WEB_FLAGS) -ldflags='-s -w' -o '$(WEB)/explore.wasm' ./web
	@cp explore/built/* web/worker.js "$$($(GO) env GOROOT)/lib/wasm/wasm_exec.js" '$(WEB)'
	@sed "s|<meta charset=[^>]*>|&<meta http-equiv=Content-Security-Policy content=\"$(WEB_POLICY)\"><meta name=host content=worker>|" explore/built/index.html > '$(WEB)/index.html'
	@grep -q 'content=worker' '$(WEB)/index.html' || { echo 'index.html has no <meta charset> to put the host behind'; exit 1; }
	@wc -c '$(WEB)'/* && gzip -9 -c '$(WEB)/explore.wasm' | wc -c | sed 's/$$/ explore.wasm with gzip -9/'

test-browser: ## hold the page of explore in Chromium (Debian: chromium) against the command, over its three hosts
	$(call module,explore/browsertest,$(SHORT))

generate: ## write all generated files anew
	$(GO) generate ./...

ci: ## what has to pass before anything lands
	.ci/run
