package safetensors

import (
	"math"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// The text around the values of a tensor as the reference writes it. Comparing with a constant
// takes an instruction or two.
const (
	beforeDType   = `{"dtype":"`
	beforeShape   = `","shape":[`
	beforeOffsets = `],"data_offsets":[`
	afterOffsets  = `]}`
)

// fastTensor reads a tensor that is written as the reference writes it, without spaces:
//
//	{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}
//
// It reports false for anything else, errors included, and reads nothing then. It serves speed
// alone: [decoder.anyTensor] reads every notation and words the errors.
func (d *decoder) fastTensor(t *layout.Tensor) bool {
	rest := d.Rest()
	b := rest
	if !strings.HasPrefix(b, beforeDType) {
		return false
	}
	b = b[len(beforeDType):]
	quote := max(strings.IndexByte(b, '"'), 0)
	dtype := dtypeNamed(b[:quote])
	b = b[quote:]
	if dtype == layout.Invalid || !strings.HasPrefix(b, beforeShape) {
		return false
	}
	b = d.fastShape(b[len(beforeShape):])
	if !strings.HasPrefix(b, beforeOffsets) {
		return false
	}
	b = b[len(beforeOffsets):]
	begin, n := jsontext.Decimal(b)
	if !isCanonical(b, n) || n == len(b) || b[n] != ',' {
		return false
	}
	b = b[n+1:]
	end, n := jsontext.Decimal(b)
	if !isCanonical(b, n) || begin > end || end > d.data.size {
		return false
	}
	b = b[n:]
	if !strings.HasPrefix(b, afterOffsets) {
		return false
	}
	d.Advance(len(rest) - len(b) + len(afterOffsets))
	t.DType, t.Offset, t.Stored = dtype, d.data.off+begin, end-begin
	return true
}

// fastShape reads dimensions at the start of b into d.shape, and returns the bytes behind them: "" if one is not written as the reference
// writes it.
func (d *decoder) fastShape(b string) (rest string) {
	d.shape = d.shape[:0]
	for {
		v, n := jsontext.Decimal(b)
		if n == 0 && len(d.shape) == 0 {
			return b // a scalar
		}
		if !isCanonical(b, n) || n == len(b) || v > math.MaxInt || uint64(len(d.shape)) == d.lim.Rank {
			return ""
		}
		d.shape = append(d.shape, int(v))
		if b[n] != ',' {
			return b[n:]
		}
		b = b[n+1:]
	}
}

// isCanonical reports whether the n digits at the start of b are a number without leading
// zeros that fits 64 bits.
func isCanonical(b string, n int) bool {
	return n > 0 && n <= 19 && (n == 1 || b[0] != '0')
}
