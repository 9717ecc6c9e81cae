package grid

import (
	"slices"
	"strings"
)

// maxDigits bounds the digits of numbers that count as layers and experts.
const maxDigits = 6

// place says where a name puts its tensor.
type place struct {
	stack string // what stands before the layer's number: "encoder.layer."
	layer int
	// expert is −1 without experts, and before what follows the layer's number: "mlp.down_proj.weight". Else before and after
	// are what stands there around the expert's number.
	expert        int
	before, after string
}

// layerWords end the segment of a name that stands before the number of a layer.
var layerWords = []string{"layers", "layer", "blocks", "block", "blk", "resblocks"}

// isLayerWord reports whether a number behind segment is the number of a layer.
func isLayerWord(segment string) bool {
	return segment == "h" || slices.ContainsFunc(layerWords, func(w string) bool { return strings.HasSuffix(segment, w) })
}

// placed finds the layer in a name. If words is set, its number follows a word for layers, or is joined to one as in
// layer_3 or layer3. Else it is the first segment that is a number.
func placed(name string, words bool) (place, bool) {
	previous := ""
	for from := 0; from < len(name); {
		to := segmentEnd(name, from)
		segment := name[from:to]
		n, isNumber := number(segment)
		if isNumber && words {
			isNumber = isLayerWord(previous)
		}
		start := from
		if !isNumber && words {
			if digits := strings.TrimRight(segment, "0123456789"); isLayerWord(strings.TrimSuffix(digits, "_")) && len(digits) > 1 {
				n, isNumber = number(segment[len(digits):])
				start = from + len(digits)
			}
		}
		if isNumber && to+1 < len(name) {
			p := place{stack: name[:start], layer: n}
			p.expert, p.before, p.after = findExpert(name[to+1:])
			return p, true
		}
		previous, from = segment, to+1
	}
	return place{}, false
}

// findExpert finds the number of an expert in what follows a layer's number: behind a segment that ends in expert or experts, or
// behind ffn_up and the like, as old GGUF files have it. It returns −1 and all of suffix if there is none.
func findExpert(suffix string) (expert int, before, after string) {
	previous := ""
	for from := 0; from < len(suffix); {
		to := segmentEnd(suffix, from)
		if n, ok := number(suffix[from:to]); ok && isExpertWord(previous) {
			return n, suffix[:from], suffix[to:]
		}
		previous, from = suffix[from:to], to+1
	}
	return -1, suffix, ""
}

// isExpertWord reports whether a number behind segment is the number of an expert.
func isExpertWord(segment string) bool {
	return strings.HasSuffix(segment, "experts") || strings.HasSuffix(segment, "expert") ||
		segment == "ffn_gate" || segment == "ffn_up" || segment == "ffn_down"
}

// segmentEnd returns where the segment of name that begins at from ends: at a dot, a slash, or the end.
func segmentEnd(name string, from int) int {
	if i := strings.IndexAny(name[from:], "./"); i >= 0 {
		return from + i
	}
	return len(name)
}

// number parses a segment that is a decimal number of at most maxDigits digits.
func number(segment string) (n int, ok bool) {
	if segment == "" || len(segment) > maxDigits {
		return 0, false
	}
	for _, c := range []byte(segment) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}
