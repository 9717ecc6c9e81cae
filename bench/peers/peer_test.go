package peers

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/quantize"
)

// A peer does one type's work in one direction: it expands blocks to floats, or makes them
// from floats, passes times over.
type peer struct {
	d    layout.DType
	name string
	run  func(floats []float32, blocks []byte, passes int)
}

// oursExpanding returns the peer that expands by package dequant on up to cores cores.
func oursExpanding(d layout.DType, cores int) peer {
	return ours(d, func(c dequant.Codec, floats []float32, blocks []byte) error {
		return c.Expand(floats, blocks, 0, cores)
	})
}

// oursQuantizing returns the peer that quantizes by package quantize without importance.
func oursQuantizing(d layout.DType, cores int) peer {
	return ours(d, func(c dequant.Codec, floats []float32, blocks []byte) error {
		return quantize.Encode(c, blocks, floats, nil, cores)
	})
}

// oursWeighing returns the peer that quantizes rows of weightedRow elements by their importance.
func oursWeighing(d layout.DType, cores int) peer {
	return ours(d, func(c dequant.Codec, floats []float32, blocks []byte) error {
		return quantize.Encode(c, blocks, floats, importance, cores)
	})
}

// ours returns a peer that calls f with the codec of type d.
func ours(d layout.DType, f func(dequant.Codec, []float32, []byte) error) peer {
	c, err := dequant.NewCodec(d, layout.Quant{}, false)
	check(err)
	return peer{d, "ours", func(floats []float32, blocks []byte, passes int) {
		for range passes {
			check(f(c, floats, blocks))
		}
	}}
}

// check panics: an error is a defect of this package.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// routine returns a function of ggml's C. It panics if ggml has none of that name.
func routine(name string) unsafe.Pointer {
	f := symbol(program, name)
	if f == nil {
		panic("ggml has no " + name)
	}
	return f
}

// named makes a peer for each type. In the name of ggml's function its name stands for %.
func named(of func(layout.DType, string) peer, name string, types ...layout.DType) (peers []peer) {
	for _, d := range types {
		peers = append(peers, of(d, strings.Replace(name, "%", typeName(d), 1)))
	}
	return peers
}

// typeName returns ggml's name of a type: in lower case, except the K of Q2_K and the like.
func typeName(d layout.DType) string {
	name := strings.ToLower(d.String())
	if n, ok := strings.CutSuffix(name, "_k"); ok {
		name = n + "_K"
	}
	return name
}

// searched are the types with a search.
var searched = []layout.DType{
	layout.Q2_K, layout.Q3_K, layout.Q4_K, layout.Q5_K, layout.Q6_K, layout.IQ4_NL, layout.IQ4_XS, layout.MXFP4,
}

// ggmlExpanders are in the order of the table.
var ggmlExpanders = slices.Concat(
	named(expander, "ggml_cpu_fp16_to_fp32", layout.F16), named(expander, "ggml_fp16_to_fp32_row", layout.F16),
	named(expander, "ggml_cpu_bf16_to_fp32", layout.BF16), named(expander, "ggml_bf16_to_fp32_row", layout.BF16),
	named(expander, "dequantize_row_%", layout.Q8_0, layout.Q4_0, layout.Q4_1, layout.Q5_0, layout.Q5_1),
	named(expander, "dequantize_row_%", searched...),
	named(expander, "dequantize_row_%", layout.TQ1_0, layout.TQ2_0, layout.IQ2_XXS, layout.IQ2_XS, layout.IQ2_S,
		layout.IQ3_XXS, layout.IQ3_S, layout.IQ1_S, layout.IQ1_M, layout.Q8_K),
)

// ggmlQuantizers make the bytes that Quantize promises.
var ggmlQuantizers = slices.Concat(
	named(quantizer, "ggml_cpu_fp32_to_fp16", layout.F16), named(quantizer, "ggml_fp32_to_fp16_row", layout.F16),
	named(quantizer, "ggml_fp32_to_bf16_row_ref", layout.BF16),
	named(quantizer, "quantize_row_%_ref", layout.Q8_0, layout.Q4_0, layout.Q4_1, layout.Q5_0, layout.Q5_1),
	named(searcher(nil), "quantize_%", searched...),
)

// ggmlWeighted make the bytes that Quantize promises with importance.
var ggmlWeighted = slices.Concat(
	named(searcher(importance), "quantize_%", layout.Q4_0, layout.Q4_1, layout.Q5_0, layout.Q5_1),
	named(searcher(importance), "quantize_%", searched...),
)

// ggmlRacers quantize faster than ggml's reference, with other results: the first may
// flush subnormals to zero, the second divides 127 by the magnitude and rounds ties to even.
var ggmlRacers = slices.Concat(named(quantizer, "ggml_fp32_to_bf16_row", layout.BF16), named(quantizer, "quantize_row_%", layout.Q8_0))

// expander returns the peer that expands by ggml's function name.
func expander(d layout.DType, name string) peer { return expanderOf(routine(name), d, name) }

// expanderOf returns the peer that expands by function f, which is called name.
func expanderOf(f unsafe.Pointer, d layout.DType, name string) peer {
	return peer{d, name, func(floats []float32, blocks []byte, passes int) {
		repeat(f, pointer(blocks), pointer(floats), len(floats), passes)
	}}
}

// quantizer returns the peer that quantizes by ggml's function name.
func quantizer(d layout.DType, name string) peer {
	f := routine(name)
	return peer{d, name, func(floats []float32, blocks []byte, passes int) {
		repeat(f, pointer(floats), pointer(blocks), len(floats), passes)
	}}
}

// searcher makes peers of rows that have weights, or of blocks without.
func searcher(weights []float32) func(layout.DType, string) peer {
	return func(d layout.DType, name string) peer {
		f := routine(name)
		if weights != nil {
			name += ", weighted"
		}
		return peer{d, name, func(floats []float32, blocks []byte, passes int) {
			row := cmp.Or(len(weights), len(floats)) // ggml counts a row's blocks from its start
			repeatRows(f, pointer(floats), pointer(blocks), len(floats), row, pointer(weights), passes)
		}}
	}
}

// pointer returns the address of the first element of s.
func pointer[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

// libraryExpanders returns the expanders that a shared library has under ggml's names. It fails on what is no library,
// and on one without such a function.
func libraryExpanders(path string) ([]peer, error) {
	lib, err := openLibrary(path)
	if err != nil {
		return nil, err
	}
	var peers []peer
	for d := layout.Invalid + 1; d.Valid(); d++ {
		row := "dequantize_row_" + typeName(d)
		if f := symbol(lib, row); f != nil && d.Quantized() && dequant.Supported(d) {
			peers = append(peers, expanderOf(f, d, row+" of "+filepath.Base(path)))
		}
	}
	if len(peers) == 0 {
		return nil, fmt.Errorf("library: %s has no dequantize_row_*", path)
	}
	return peers, nil
}

// allExpanders returns ggml's expanders, and those of the shared library that -lib names.
func allExpanders() ([]peer, error) {
	if *shared == "" {
		return ggmlExpanders, nil
	}
	more, err := libraryExpanders(*shared)
	return slices.Concat(ggmlExpanders, more), err
}

// A typeSet is a flag that names types; none means all.
type typeSet []layout.DType

// of returns the type that p works on.
func (p peer) of() layout.DType { return p.d }

// chosen returns the peers of the types in the set.
func chosen[P interface{ of() layout.DType }](types typeSet, peers []P) []P {
	return slices.DeleteFunc(slices.Clone(peers), func(p P) bool { return len(types) > 0 && !slices.Contains(types, p.of()) })
}

// set adds the types in a comma-separated list.
func (s *typeSet) set(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		d, ok := layout.ParseDType(name)
		if !ok {
			return fmt.Errorf("no type %q", name)
		}
		*s = append(*s, d)
	}
	return nil
}
