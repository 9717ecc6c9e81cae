// Package peers holds benchmarks and tests, which run the same buffers through dequant or quantize and through the C of
// ggml, in one process. Another benchmark opens a GGUF file by package loader and by other Go packages.
//
//	make bench-peers                       # speed: expanding, quantizing, products
//	make bench-peers PEERS='-bench Dot'    # products of rows and vectors
//	make bench-peers PEERS='-short'        # nothing beyond the caches
//	make bench-gguf                        # opening a GGUF file
//	make peers-values                      # values: bit for bit, over 10⁷ random blocks of each type
//
// ggml's C is the copy that github.com/ollama/ollama carries; cgo compiles it on the first
// run, which takes minutes. This is a module of its own so that neither reaches users.
//
// # Speed
//
// Build with CGO_CFLAGS="-O3 -march=native". A benchmark is named by type, size and ggml's function. Both sides write to the
// same memory, allocated and touched before. In every iteration each side has its turn, for at least a millisecond or one
// pass over the buffers; the best turn counts, which other load on the machine disturbs
// least. A C routine repeats in C, so that entering it costs nothing; ours pays for its
// call and its checks every pass, which small buffers show. Figures are GB/s of float32:
// output when expanding, input when quantizing.
//
// If ggml has two routines for the same work both run: its base library has portable loops that
// the compiler vectorizes, its CPU backend intrinsics.
//
// Types that only a newer ggml has compete if it is at hand as a shared library. -lib takes any
// file that has dequantize_row_*. Its quantizations alone will do:
//
//	git clone --depth 1 https://github.com/ggml-org/ggml
//	gcc -O3 -march=native -fPIC -shared -I ggml/include -I ggml/src ggml/src/ggml-quants.c -lm -o libquants.so
//	make bench-peers PEERS="-lib $PWD/libquants.so -bench 'Expand/(Q1_0|Q2_0|NVFP4)'"
//
// GODEBUG=cpu.avx512f=off shows what ours does without AVX-512, -tags purego without assembly.
//
// # Products
//
// BenchmarkDot has rows of 4096 times a vector, by package dot and by ggml_vec_dot_*. Both get the vector
// quantized beforehand, but MatVec of package loader does it as part of its work.
//
// # Opening
//
// BenchmarkGGUF opens a file with 2,000 tensors and the outlines of Llama 3's vocabulary: 128,256 tokens with
// scores and types, and 280,147 merges. It is in the page cache. Each package opens and closes it, in each
// mode that might be its fastest. The others are github.com/gpustack/gguf-parser-go and Ollama's fs/ggml.
//
// # Values
//
// TestValues takes random blocks: half of them random to the last bit, scales included,
// half with scales that a model has. Quantizers get rows of weights, of any finite
// bits, of ties, zeros, subnormals, and numbers near the greatest. Importance is like a model's, zero in
// part or throughout, even, or of any magnitude from 2⁻¹⁴⁹ to 2⁵⁰. NaN equals NaN; all else
// must have the same bits. Products in ggml's expansions are exact in float32, so it does
// not matter whether the compiler contracts them with the sum that follows. In its
// quantizers it does: -ffp-contract=off there, which activations need too.
//
// Products are held against float64 sums of expanded rows and the quantized vector, within the
// bound that package dot states, and ggml's within twice that: its sums have another order. In every
// other round codes are random and scales 1. Sums are integers then, and ours equal ggml's.
package peers
