package main

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// fills are the colours of dtypes: Paul Tol's scheme "light", which people of any colour
// vision tell apart and which carries dark text. The last stands for all dtypes that none is
// left for.
var fills = [...]string{"#77aadd", "#ee8866", "#eedd88", "#99ddff", "#44bb99", "#ffaabb", "#bbcc33", "#aaaa00", "#dddddd"}

const lastFill = len(fills) - 1

// usualFills are colours of frequent dtypes, so that these look the same in two pictures.
var usualFills = map[layout.DType]int{
	layout.F32: 0, layout.BF16: 3, layout.F16: 4,
	layout.Q8_0: 1, layout.I8: 1, layout.Q4_0: 2, layout.Q4_K: 2, layout.Q6_K: 5, layout.Q5_K: 6,
	layout.I32: 7, layout.I64: 7, layout.U8: 6,
}

// fillsOf hands out a colour to each dtype; those that come first have the first choice.
func fillsOf(lists ...[]total) map[layout.DType]int {
	dtypes := slices.Concat(lists...)
	fill := make(map[layout.DType]int, len(dtypes))
	var taken [lastFill]bool
	for _, t := range dtypes {
		if i, ok := usualFills[t.dtype]; ok && !taken[i] {
			if _, ok := fill[t.dtype]; !ok {
				fill[t.dtype], taken[i] = i, true
			}
		}
	}
	for _, t := range dtypes {
		if _, ok := fill[t.dtype]; !ok {
			fill[t.dtype] = freeFill(&taken)
		}
	}
	return fill
}

func freeFill(taken *[lastFill]bool) int {
	for i := range taken {
		if !taken[i] {
			taken[i] = true
			return i
		}
	}
	return lastFill
}
