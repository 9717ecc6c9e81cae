package safetensors

import "github.com/tensormap/tensormap/layout"

// What stands around the values of a tensor as the reference writes it. These are
// constants so that comparing with them takes an instruction or two.
const (
	beforeDType   = `{"dtype":"`
	beforeShape   = `","shape":[`
	beforeOffsets = `],"data_offsets":[`
	afterOffsets  = `]}`
)

// usual reads a tensor that is written as the reference writes it,
//
//	{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}
//
// without spaces, and reports whether it was. Anything else, errors included, it leaves
// where it is to the code that reads any notation and knows what to say: usual is there
// for speed alone.
func (d *decoder) usual(t *layout.Tensor) bool {
	b := d.b[d.i:]
	if len(b) < len(beforeDType) || string(b[:len(beforeDType)]) != beforeDType {
		return false
	}
	b = b[len(beforeDType):]
	quote := 0
	for quote < len(b) && b[quote] != '"' {
		quote++
	}
	dtype := dtypeNamed(b[:quote])
	b = b[quote:]
	if dtype == layout.Invalid || len(b) < len(beforeShape) || string(b[:len(beforeShape)]) != beforeShape {
		return false
	}
	b = d.usualShape(b[len(beforeShape):])
	if len(b) < len(beforeOffsets) || string(b[:len(beforeOffsets)]) != beforeOffsets {
		return false
	}
	b = b[len(beforeOffsets):]
	begin, n := decimal(b)
	if !canonical(b, n) || n == len(b) || b[n] != ',' {
		return false
	}
	b = b[n+1:]
	end, n := decimal(b)
	if !canonical(b, n) || begin > end || end > d.data.size {
		return false
	}
	b = b[n:]
	if len(b) < len(afterOffsets) || string(b[:len(afterOffsets)]) != afterOffsets {
		return false
	}
	d.i = len(d.b) - len(b) + len(afterOffsets)
	t.DType, t.Offset, t.Stored = dtype, d.data.off+begin, end-begin
	return true
}

// usualShape reads dimensions into d.shape and returns what follows them.
func (d *decoder) usualShape(b []byte) (rest []byte) {
	d.shape = d.shape[:0]
	for {
		v, n := decimal(b)
		if n == 0 && len(d.shape) == 0 {
			return b // a scalar
		}
		if !canonical(b, n) || n == len(b) || uint64(len(d.shape)) == d.lim.Rank {
			return nil
		}
		d.shape = append(d.shape, v)
		if b[n] != ',' {
			return b[n:]
		}
		b = b[n+1:]
	}
}

// canonical reports whether the n digits at the start of b are a number without leading
// zeros that fits 64 bits.
func canonical(b []byte, n int) bool {
	return n > 0 && n <= 19 && (n == 1 || b[0] != '0')
}
