#!/bin/bash -eu
# Builds the functions FuzzX of internal/test/fuzz for libFuzzer, each with the files of testdata
# as its seeds. A test in that package holds the list against the code.

# seeds makes the seed corpus of fuzzer $1 from the files whose names end as the rest says.
seeds() {
	local fuzzer=$1 dir=$WORK/$1 name suffix
	shift
	rm -rf "$dir" && mkdir -p "$dir"
	for suffix; do
		find testdata -type f -name "*$suffix" | while read -r name; do cp "$name" "$dir/${name//\//-}"; done
	done
	zip -q -r -j "$OUT/${fuzzer}_seed_corpus.zip" "$dir"
}

package=github.com/tensormap/tensormap/internal/test/fuzz
compile_go_fuzzer $package FuzzOpen fuzz_open
compile_go_fuzzer $package FuzzManifest fuzz_manifest
compile_go_fuzzer $package FuzzJSON fuzz_json
compile_go_fuzzer $package FuzzScheme fuzz_scheme
compile_go_fuzzer $package FuzzQuantState fuzz_quant_state

seeds fuzz_open .apr .april .b2l .gguf .safetensors .tsm
seeds fuzz_manifest .apr .index.json
seeds fuzz_json .json
seeds fuzz_scheme config.json
seeds fuzz_quant_state .json
