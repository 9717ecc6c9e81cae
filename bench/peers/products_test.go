package peers

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/dequant/dot"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/layout"
)

// wholeCols is the width of rows whose products are integers: few enough for all sums to stay below 2²⁴.
const wholeCols = 512

// wholeVector returns integers that are their own codes, under scales of 1 or -1.
func (p *dotPeer) wholeVector(rng *rand.Rand) vector {
	x := make([]float32, wholeCols)
	for i := range x {
		if x[i] = 127; i%32 > 0 {
			x[i] = float32(rng.IntN(255) - 127)
		}
	}
	return p.prepared(x)
}

// fillWhole makes blocks of random codes under scales of 1.
func fillWhole(rng *rand.Rand, d layout.DType, b []byte) {
	fillRandom(rng, b)
	for size := d.BlockBytes(); len(b) >= size; b = b[size:] {
		for _, at := range kerneltest.Halves[d] {
			kerneltest.PutScale(d, b[at:], 0x3c00)
		}
		if d == layout.MXFP4 {
			b[0] = 128
		}
	}
}

// products compares p's type: ours against float64 sums of expanded rows with the quantized vector, within
// the bound that package dot states, and against ggml's within twice that. In every other round the sums are
// integers, and all three are equal.
func (j *judge) products(p dotPeer) func(*verdict) {
	return func(v *verdict) {
		const rows = 64
		rng := rand.New(rand.NewPCG(j.seed, uint64(p.d)<<16))
		perRow := dotCols / p.d.BlockElems()
		got, theirs := make([]float32, rows), make([]float32, rows)
		for v.compared < int64(max(1, j.blocks/perRow)) {
			x, whole := p.vector(rng, dotCols), v.compared/rows%2 == 1 && p.d.BlockElems() > 1
			if whole {
				x = p.wholeVector(rng)
			}
			w, src := make([]float32, len(x.x)), make([]byte, rows*sizeOf(p.d, len(x.x)))
			size := len(src) / rows
			switch {
			case p.d == layout.F32:
				copy(src, p.rows(rows, dotCols))
			case whole:
				fillWhole(rng, p.d, src)
			default:
				fillPlain(rng, p.d, src)
			}
			check(dot.Mat([][]float32{got}, p.d, src, []*dot.Activation{x.ours}))
			p.theirs(theirs, src, x, 1)
			for r := range got {
				check(dequant.Expand(p.d, w, src[r*size:][:size]))
				want, ggml, bound := x.exact(p, w, src[r*size:][:size])
				if whole {
					bound = 0
				}
				if d := math.Abs(float64(got[r]) - want); !(d <= bound) {
					v.mismatch(func() string { return fmt.Sprintf("%v, exact %v: %g off, bound %g", got[r], want, d, bound) })
				}
				if d := math.Abs(float64(theirs[r]) - ggml); !(d <= 2*bound) {
					v.mismatch(func() string { return fmt.Sprintf("ggml %v, exact %v: %g off, bound %g", theirs[r], ggml, d, 2*bound) })
				}
			}
			v.compared += rows
		}
	}
}

// exact returns the sums of products in float64, for our activation and for ggml's. These differ for halves alone.
// bound is that of the float32 sum's error.
func (x vector) exact(p dotPeer, w []float32, row []byte) (ours, ggml, bound float64) {
	var magnitude float64
	y := p.expand(x)
	for i, f := range w {
		m, add := 0.0, 0.0
		if d := p.d; d == layout.Q4_1 || d == layout.Q5_1 { // the offset meets the rounded sum, once a block
			m = half(row[i/32*d.BlockBytes()+2:])
			if i%32 == 0 {
				add = m * half(x.theirs[i/32*36+2:])
			}
		}
		ggml += (float64(f)-m)*y[i] + add
		magnitude += (math.Abs(float64(f))+math.Abs(m))*math.Abs(y[i]) + math.Abs(add)
		if p.activate == nil || x.ours.Type() != layout.F32 {
			ours = ggml
		} else {
			ours += float64(f) * float64(x.x[i])
		}
	}
	return ours, ggml, float64(len(w)/32+16) * 0x1p-24 * magnitude
}

func half(b []byte) float64 {
	var f [1]float32
	check(dequant.Expand(layout.F16, f[:], b[:2]))
	return float64(f[0])
}

// expand returns the values of ggml's activation.
func (p *dotPeer) expand(x vector) []float64 {
	n := len(x.x)
	f, d := make([]float32, n), x.ours.Type()
	if p.activate != nil && d == layout.F32 {
		d = p.d
	}
	check(dequant.Expand(d, f, x.theirs[:sizeOf(d, n)]))
	y := make([]float64, n)
	for i := range f {
		y[i] = float64(f[i])
	}
	return y
}
