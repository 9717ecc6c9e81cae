package main

import (
	"slices"
	"strings"

	"github.com/tensormap/tensormap/loader"
)

// byColumns are the names of weights whose inputs are spread over the ranks: each rank multiplies by
// its columns, and the results are added up. They follow weights that are split by rows, as in
// Megatron-LM (arXiv 1909.08053, section 3).
var byColumns = []string{"o_proj.weight", "down_proj.weight", "attn_output.weight", "ffn_down.weight"}

// share returns the region of a tensor that rank multiplies by, of ranks ranks: a range of its rows, or of its columns.
// It returns nil, which stands for the whole tensor, for vectors and for dimensions that ranks does not divide.
func share(name string, shape []int, rank, ranks int) []loader.Range {
	if len(shape) < 2 {
		return nil
	}
	dim := len(shape) - 2
	if slices.ContainsFunc(byColumns, func(suffix string) bool { return strings.HasSuffix(name, suffix) }) {
		dim = len(shape) - 1
	}
	if shape[dim]%ranks != 0 {
		return nil
	}
	region := slices.Repeat([]loader.Range{loader.All()}, len(shape))
	region[dim] = loader.Range{First: rank * (shape[dim] / ranks), N: shape[dim] / ranks}
	return region
}
