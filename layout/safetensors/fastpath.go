package safetensors

import (
	"math"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// fastTensor reads a tensor that is written as the reference writes it, without spaces:
//
//	{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}
//
// It reports false for anything else, errors included, and reads nothing then. It serves speed
// alone: [decoder.anyTensor] reads every notation and words the errors, in 1.4 times the time (BenchmarkDecode and BenchmarkDecodeSpaced).
func (d *decoder) fastTensor(t *layout.Tensor) bool {
	rest := d.Rest()
	b, ok := strings.CutPrefix(rest, `{"dtype":"`)
	if !ok {
		return false
	}
	name := b[:max(strings.IndexByte(b, '"'), 0)]
	dtype := dtypeNamed(name)
	if b, ok = strings.CutPrefix(b[len(name):], `","shape":[`); !ok || dtype == layout.Invalid {
		return false
	}
	if b, ok = strings.CutPrefix(d.fastShape(b), `],"data_offsets":[`); !ok {
		return false
	}
	begin, b, canonical := cutNumber(b)
	if b, ok = strings.CutPrefix(b, ","); !ok || !canonical {
		return false
	}
	end, b, canonical := cutNumber(b)
	if b, ok = strings.CutPrefix(b, "]}"); !ok || !canonical || begin > end || end > d.data.Size {
		return false
	}
	d.Advance(len(rest) - len(b))
	t.DType, t.Offset, t.Stored = dtype, d.data.Offset+begin, end-begin
	return true
}

// fastShape reads dimensions at the start of b into d.shape, and returns the text behind them. It returns "" if one is not written as the
// reference writes it.
func (d *decoder) fastShape(b string) (rest string) {
	d.shape = d.shape[:0]
	if strings.HasPrefix(b, "]") {
		return b // a scalar
	}
	for {
		v, behind, canonical := cutNumber(b)
		if !canonical || v > math.MaxInt || uint64(len(d.shape)) == d.lim.Rank {
			return ""
		}
		d.shape = append(d.shape, int(v))
		if !strings.HasPrefix(behind, ",") {
			return behind
		}
		b = behind[1:]
	}
}

// cutNumber returns the value of the digits at the start of b, and the text behind them. It reports whether they are a number without leading
// zeros that surely fits 64 bits.
func cutNumber(b string) (v uint64, rest string, canonical bool) {
	v, n := jsontext.Decimal(b)
	return v, b[n:], n > 0 && n <= 19 && (n == 1 || b[0] != '0')
}
