package grid

import (
	"strconv"
	"strings"
)

// maxNumber bounds the numbers that count as layers and experts.
const maxNumber = 999_999

// place says where a name puts its tensor.
type place struct {
	stack  string // what stands before the layer's number: "encoder.layer."
	layer  int
	suffix string // what follows the number: "mlp.experts.7.down_proj.weight"
	// expert is −1 without experts. Else before and after are the parts of suffix around its number.
	expert        int
	before, after string
}

// layerWords end the part of a name that stands before the number of a layer.
var layerWords = []string{"layers", "layer", "blocks", "block", "blk", "resblocks"}

// isLayerWord reports whether a number behind part is that of a layer.
func isLayerWord(part string) bool {
	if part == "h" {
		return true
	}
	for _, w := range layerWords {
		if strings.HasSuffix(part, w) {
			return true
		}
	}
	return false
}

// placed finds the layer in a name. If words is set, its number follows a word for layers, or is joined to one as in
// layer_3 or layer3. Else it is the first part that is a number.
func placed(name string, words bool) (place, bool) {
	previous := ""
	for from := 0; from < len(name); {
		to := partEnd(name, from)
		part := name[from:to]
		n, isNumber := number(part)
		if isNumber && words {
			isNumber = isLayerWord(previous)
		}
		start := from
		if !isNumber && words {
			if digits := strings.TrimRight(part, "0123456789"); isLayerWord(strings.TrimSuffix(digits, "_")) && len(digits) > 1 {
				n, isNumber = number(part[len(digits):])
				start = from + len(digits)
			}
		}
		if isNumber && to+1 < len(name) {
			p := place{stack: name[:start], layer: n, suffix: name[to+1:], expert: -1}
			p.findExpert()
			return p, true
		}
		previous, from = part, to+1
	}
	return place{}, false
}

// findExpert finds the number of an expert in the suffix: behind a part that ends in expert or experts, or behind ffn_up
// and the like, as old GGUF files have it.
func (p *place) findExpert() {
	previous := ""
	for from := 0; from < len(p.suffix); {
		to := partEnd(p.suffix, from)
		if n, ok := number(p.suffix[from:to]); ok && isExpertWord(previous) {
			p.expert, p.before, p.after = n, p.suffix[:from], p.suffix[to:]
			return
		}
		previous, from = p.suffix[from:to], to+1
	}
}

// isExpertWord reports whether a number behind part is that of an expert.
func isExpertWord(part string) bool {
	switch part {
	case "ffn_gate", "ffn_up", "ffn_down":
		return true
	}
	return strings.HasSuffix(part, "experts") || strings.HasSuffix(part, "expert")
}

// partEnd returns where the part of name that begins at from ends: at a dot, a slash, or the end.
func partEnd(name string, from int) int {
	if i := strings.IndexAny(name[from:], "./"); i >= 0 {
		return from + i
	}
	return len(name)
}

// number parses a part that is a decimal number of at most maxNumber.
func number(part string) (int, bool) {
	if part == "" || len(part) > len("999999") {
		return 0, false
	}
	for _, c := range []byte(part) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(part)
	return n, err == nil && n <= maxNumber
}
