package dot

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/block"
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/quantize"
)

// types are all types that Rows multiplies.
var types = func() (list []layout.DType) {
	for d := range layout.DType(numTypes) {
		if Type(d) != 0 {
			list = append(list, d)
		}
	}
	return list
}()

// halves are the places of binary16s in a block.
var halves = map[layout.DType][]int{
	layout.Q4_0: {0}, layout.Q4_1: {0, 2}, layout.Q5_0: {0}, layout.Q5_1: {0, 2}, layout.Q8_0: {0}, layout.Q8_1: {0, 2},
	layout.Q2_K: {80, 82}, layout.Q3_K: {108}, layout.Q4_K: {0, 2}, layout.Q5_K: {0, 2}, layout.Q6_K: {208},
	layout.IQ4_NL: {0}, layout.IQ4_XS: {0}, layout.IQ2_XXS: {0}, layout.IQ2_XS: {0}, layout.IQ2_S: {0},
	layout.IQ3_XXS: {0}, layout.IQ3_S: {0}, layout.IQ1_S: {0}, layout.TQ1_0: {52}, layout.TQ2_0: {64},
	layout.Q1_0: {0}, layout.Q2_0: {0}, layout.APR_Q4: {0}, layout.F16: {0},
}

// randomRows returns n blocks of random codes under scales of moderate size.
func randomRows(rng *rand.Rand, d layout.DType, n int) []byte {
	size := d.BlockBytes()
	b := make([]byte, n*size)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	for at := 0; at < len(b); at += size {
		for _, h := range halves[d] {
			binary.LittleEndian.PutUint16(b[at+h:], block.Half(float32(rng.NormFloat64())))
		}
		switch d {
		case layout.MXFP4:
			b[at] = byte(120 + rng.IntN(16))
		case layout.F32, layout.Q8_K:
			binary.LittleEndian.PutUint32(b[at:], math.Float32bits(float32(rng.NormFloat64())))
		case layout.F64:
			binary.LittleEndian.PutUint64(b[at:], math.Float64bits(rng.NormFloat64()))
		case layout.BF16:
			b[at+1] = b[at+1]&0x80 | 0x3f
		case layout.F8_E8M0:
			b[at] = byte(120 + rng.IntN(16))
		case layout.F8_E4M3, layout.F8_E5M2:
			b[at] &^= 0x40
		case layout.F8_E4M3FNUZ, layout.F8_E5M2FNUZ:
			b[at] |= 1 // 0x80 is a NaN
		case layout.IQ1_M:
			for i := 49; i < 56; i += 2 {
				b[at+i] &= 0x3f
			}
		}
	}
	return b
}

func randomVector(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// extremeVector has elements whose codes are 127 and -127 only.
func extremeVector(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1 - 2*float32(rng.IntN(2))
	}
	return x
}

// value returns element i of the vector that a stands for, and the scale of its block.
func (a *Activation) value(i int) (v, scale float64) {
	if a.dtype == layout.F32 {
		return float64(a.floats[i]), 0
	}
	g, k := &a.groups[i/groupElems], i/32%8
	scale = float64(g.scales[k])
	return scale * float64(g.codes[codeIndex(k, i/16&1)+i%16]), scale
}

// TestActivations holds codes and scales against package dequant's quantizer, and sums against codes.
func TestActivations(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 32, 64, 256, 288, 1024 + 96} {
		x := randomVector(rng, n)
		blocks := make([]byte, n/32*34)
		c, err := dequant.NewCodec(layout.Q8_0, layout.Quant{}, false)
		if err := cmp.Or(err, quantize.Encode(c, blocks, x, nil, 1)); err != nil {
			t.Fatal(err)
		}
		want := make([]float32, n)
		if err := dequant.Expand(layout.Q8_0, want, blocks); err != nil {
			t.Fatal(err)
		}
		for _, d := range []layout.DType{layout.Q4_0, layout.Q4_1} {
			a, err := Prepare(d, x)
			if err != nil {
				t.Fatal(err)
			}
			for i := range x {
				if got, _ := a.value(i); float32(got) != want[i] {
					t.Fatalf("%v: element %d of %d is %v, want %v", d, i, n, got, want[i])
				}
			}
			for i := 0; i < n; i += 32 {
				var sum int32
				for j := range 32 {
					sum += int32(int8(blocks[i/32*34+2+j]))
				}
				g, k := &a.groups[i/256], i/32%8
				most := abs(extreme(x[i : i+32]))
				s := block.Float(block.Half(float32(sum) * (most / 127)))
				if g.codeSums[k] != sum || int32(g.sums16[2*k])+int32(g.sums16[2*k+1]) != sum || d == layout.Q4_1 && g.scaledSums[k] != s {
					t.Fatalf("%v: sums of block %d are %d, %v and %v, want %d and %v", d, i/32, g.codeSums[k], g.scaledSums[k], g.sums16[2*k:2*k+2], sum, s)
				}
			}
		}
	}
}

// TestActivationQ8K has a block whose codes follow from the definition: the greatest becomes -127,
// halves round to even.
func TestActivationQ8K(t *testing.T) {
	x := make([]float32, 256)
	x[0], x[17], x[40], x[255] = 127, -63.5, 0.5, 1.5
	a, err := Prepare(layout.Q4_K, x)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x {
		want := map[int]float64{0: 127, 17: -64, 40: 0, 255: 2}[i]
		if got, scale := a.value(i); got != want || scale != -1 {
			t.Errorf("element %d is %v under %v, want %v under -1", i, got, scale, want)
		}
	}
	g := &a.groups[0]
	for k, want := range map[int]int16{0: -127, 1: 64, 2: 0, 15: -2} {
		if g.sums16[k] != want {
			t.Errorf("sum %d is %d, want %d", k, g.sums16[k], want)
		}
	}
}

// TestQuantizers holds groups and errors on every level against the portable loop: for vectors of all lengths and magnitudes,
// with halves between codes, zeros, two greatest elements of different signs, and what has no codes.
func TestQuantizers(t *testing.T) {
	testmode.Sequential(t)
	rng := rand.New(rand.NewPCG(13, 14))
	greatest := func(k int) []float32 {
		x := make([]float32, 256)
		x[k], x[(k+97)%256], x[(k+5)%256] = 3, -3, 1
		return x
	}
	var vectors [][]float32
	for n := 32; n <= 20*32; n += 32 {
		vectors = append(vectors, randomVector(rng, n), extremeVector(rng, n), make([]float32, n))
	}
	for range 2000 {
		x := randomVector(rng, 256)
		scale := math.Float32frombits(rng.Uint32() & (1<<31 - 1))
		for i := range x {
			if x[i] *= scale; rng.IntN(4) == 0 {
				x[i] = scale * float32(rng.IntN(509)-254) / 2 // halves, if scale is a power of two
			}
		}
		vectors = append(vectors, x, greatest(rng.IntN(256)))
		halves := make([]float32, 256)
		for i := range halves {
			halves[i] = float32(rng.IntN(509)-254) / 2
		}
		halves[rng.IntN(256)], halves[rng.IntN(256)] = 127, -127
		vectors = append(vectors, halves)
		odd := randomVector(rng, 512)
		odd[rng.IntN(512)] = math.Float32frombits(rng.Uint32() | 0x7f800000&-(rng.Uint32()&1))
		vectors = append(vectors, odd)
	}
	for _, x := range vectors {
		for _, d := range []layout.DType{layout.Q8_0, layout.Q4_1, layout.Q4_K} {
			if len(x)%d.BlockElems() != 0 {
				continue
			}
			want, got := new(Activation), new(Activation)
			old := active
			active = overlay([]*impl{&generic})
			wantErr := want.Set(d, x)
			for _, l := range levels[1:] {
				active = overlay([]*impl{&generic, l})
				err := got.Set(d, x)
				if fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Fatalf("%s: %v, want %v", l.name, err, wantErr)
				}
				for i := range got.groups {
					if err == nil && got.groups[i] != want.groups[i] {
						t.Fatalf("%s, %v: group %d of %v is\n%v, want\n%v", l.name, d, i, x[i*256:min(len(x), i*256+256)], got.groups[i], want.groups[i])
					}
				}
			}
			active = old
		}
	}
}

// TestValues holds products on every level against float64 sums of expanded rows, within the
// bound that the package comment states.
func TestValues(t *testing.T) {
	testmode.Sequential(t)
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		for _, d := range types {
			for _, n := range []int{1, 2, 3, 9, 16, 17, 33, 64} {
				n *= d.BlockElems()
				testValues(t, rng, d, n, randomVector(rng, n))
				testValues(t, rng, d, n, extremeVector(rng, n))
			}
			n := (segmentElems + 96) / d.BlockElems() * d.BlockElems()
			testValues(t, rng, d, n, randomVector(rng, n))
		}
	})
}

func testValues(t *testing.T, rng *rand.Rand, d layout.DType, n int, x []float32) {
	t.Helper()
	const rows = 3
	a, err := Prepare(d, x)
	if err != nil {
		t.Fatal(err)
	}
	src := randomRows(rng, d, rows*n/d.BlockElems())
	got, w := make([]float32, rows), make([]float32, n)
	if err := Rows(got, d, src, a); err != nil {
		t.Fatal(err)
	}
	size := len(src) / rows
	for r := range got {
		row := src[r*size:][:size]
		if err := dequant.Expand(d, w, row); err != nil {
			t.Fatal(err)
		}
		var want, magnitude float64
		for i := range w {
			v, scale := a.value(i)
			m := 0.0
			if a.dtype == layout.Q8_1 { // the offset meets the rounded sum, once a block
				m = float64(block.FloatAt((*[2]byte)(row[i/32*d.BlockBytes()+2:])))
				if i%32 == 0 {
					s := m * float64(a.groups[i/256].scaledSums[i/32%8])
					want += s
					magnitude += math.Abs(s)
				}
			}
			want += (float64(w[i]) - m) * v
			// Expanding rounds too, and what blocks add may be greater than its products.
			magnitude += (math.Abs(float64(w[i])) + math.Abs(m)) * max(math.Abs(v), scale)
		}
		bound := (float64(n)/lanes + 16) * 0x1p-24 * magnitude
		if a.dtype != layout.F32 {
			bound = (float64(n)/128 + 16) * 0x1p-23 * magnitude
		}
		if diff := math.Abs(float64(got[r]) - want); !(diff <= bound) {
			t.Fatalf("%v, %d elements: %v, want %v: %g off, bound %g", d, n, got[r], want, diff, bound)
		}
	}
}

// use makes l, over the portable loops, the active implementation until the test ends.
func use(t testing.TB, l *impl) {
	old := active
	active = overlay([]*impl{&generic, l})
	t.Cleanup(func() { active = old })
}

// eachLevel runs f under every implementation that this machine has.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	for _, l := range levels {
		t.Run(l.name, func(t *testing.T) {
			use(t, l)
			f(t)
		})
	}
}

// multiplyOne sets dst to the products of rows with a, as Mat does.
func multiplyOne(dst []float32, d layout.DType, rows []byte, a *Activation) {
	if err := Mat([][]float32{dst}, d, rows, []*Activation{a}); err != nil {
		panic(err)
	}
}

// A case of equality: rows and an activation.
func sameAsGeneric(t *testing.T, name string, d layout.DType, src []byte, rows int, a *Activation) {
	t.Helper()
	want, got := make([]float32, rows), make([]float32, rows)
	old := active
	defer func() { active = old }()
	active = overlay([]*impl{&generic})
	multiplyOne(want, d, src, a)
	check := func(l *impl) {
		t.Helper()
		for r := range got {
			if math.Float32bits(got[r]) != math.Float32bits(want[r]) && (got[r] == got[r] || want[r] == want[r]) {
				t.Fatalf("%s, %s of %v: row %d of %d elements is %v (%08x), want %v (%08x)", name, l.name, d, r, a.elems,
					got[r], math.Float32bits(got[r]), want[r], math.Float32bits(want[r]))
			}
		}
	}
	for _, l := range levels[1:] {
		active = overlay([]*impl{&generic, l})
		multiplyOne(got, d, src, a)
		check(l)
		if l.quantized[d].many != nil {
			if err := Mat([][]float32{make([]float32, rows), got}, d, src, []*Activation{a, a}); err != nil {
				t.Fatal(err)
			}
			check(l)
		}
	}
}

// TestLevels holds every kernel against the portable loop, bit for bit: at all lengths around a
// group, and for codes and bytes at their extremes.
func TestLevels(t *testing.T) {
	testmode.Sequential(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, d := range types {
		if Type(d) == layout.F32 && d.BlockElems() > 1 {
			continue // in tiles, which TestValues covers
		}
		step := d.BlockElems()
		if step == 1 {
			step = lanes
		}
		for blocks := 1; blocks <= 20; blocks++ {
			n := blocks * step
			for _, x := range [][]float32{randomVector(rng, n), extremeVector(rng, n)} {
				a, err := Prepare(d, x)
				if err != nil {
					t.Fatal(err)
				}
				count := 5 * n / d.BlockElems()
				sameAsGeneric(t, "random", d, randomRows(rng, d, count), 5, a)
				if d.BlockElems() == 1 {
					continue
				}
				for _, fill := range []byte{0, 0xff, 0x80, 0x7f} { // scales too: NaN, or -0
					src := randomRows(rng, d, count)
					plain := append([]byte(nil), src...)
					for i := range src {
						src[i] = fill
					}
					sameAsGeneric(t, "filled", d, src, 5, a)
					for at := 0; at < len(src); at += d.BlockBytes() {
						for _, h := range halves[d] {
							copy(src[at+h:], plain[at+h:at+h+2])
						}
						if d == layout.MXFP4 {
							src[at] = plain[at]
						}
					}
					sameAsGeneric(t, "codes filled", d, src, 5, a)
				}
			}
		}
	}
}

// TestHostileFloats multiplies numbers of all bits with vectors that have subnormals, infinities and NaNs.
func TestHostileFloats(t *testing.T) {
	testmode.Sequential(t)
	rng := rand.New(rand.NewPCG(21, 22))
	for _, d := range types {
		if Type(d) != layout.F32 || d.BlockElems() > 1 {
			continue
		}
		for range 50 {
			x := randomVector(rng, lanes*(1+rng.IntN(9)))
			src := make([]byte, 5*len(x)*d.BlockBytes())
			for i := range src {
				src[i] = byte(rng.Uint32())
			}
			for _, mask := range []uint32{0x807fffff, math.MaxUint32} {
				for i := range x {
					if rng.IntN(2) == 0 {
						x[i] = math.Float32frombits(rng.Uint32() & mask)
					}
				}
				a, err := Prepare(d, x)
				if err != nil {
					t.Fatal(err)
				}
				sameAsGeneric(t, "hostile", d, src, 5, a)
			}
		}
	}
}

// TestMany holds the products of several activations against those of each, bit for bit: in whole groups and not, with more
// vectors and rows than are multiplied together, under scales that are not finite.
func TestMany(t *testing.T) {
	testmode.Sequential(t)
	eachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(15, 16))
		for _, d := range types {
			if active.name != generic.name && active.quantized[d].many == nil {
				continue // which does what the portable level does
			}
			for _, blocks := range []int{1, 2, 5, 8, 9, 12, 23, 200} {
				n := blocks * max(d.BlockElems(), lanes)
				for _, vectors := range []int{2, 3, 11, 70} {
					rows := 1 + rng.IntN(20)
					if blocks == 200 {
						rows = 2
					}
					if vectors == 70 && blocks > 9 || vectors != 3 && blocks == 200 {
						continue // a tile's vectors and its rows are exceeded one at a time
					}
					var as []*Activation
					var got [][]float32
					for i := range vectors {
						x := randomVector(rng, n)
						if i%3 == 1 {
							x = extremeVector(rng, n)
						}
						a, err := Prepare(d, x)
						if err != nil {
							t.Fatal(err)
						}
						as, got = append(as, a), append(got, make([]float32, rows))
					}
					src := randomRows(rng, d, rows*n/d.BlockElems())
					if h := halves[d]; len(h) > 0 && vectors == 3 {
						for r := range rows { // the last block of a row, where padding follows
							binary.LittleEndian.PutUint16(src[(r+1)*len(src)/rows-d.BlockBytes()+h[0]:], uint16(0x7c00+r%2))
						}
					}
					if err := Mat(got, d, src, as); err != nil {
						t.Fatal(err)
					}
					want := make([]float32, rows)
					for i, a := range as {
						multiplyOne(want, d, src, a)
						for r := range want {
							if math.Float32bits(got[i][r]) != math.Float32bits(want[r]) && (got[i][r] == got[i][r] || want[r] == want[r]) {
								t.Fatalf("%v, %d elements: row %d of %d times vector %d of %d is %v, want %v", d, n, r, rows, i, vectors, got[i][r], want[r])
							}
						}
					}
				}
			}
		}
	})
}

// TestScales holds every kernel against the portable loop under all scales.
func TestScales(t *testing.T) {
	testmode.Sequential(t)
	rng := rand.New(rand.NewPCG(7, 8))
	for _, d := range types {
		if Type(d) == layout.F32 {
			continue
		}
		const rows = 64
		n := 8 * d.BlockElems()
		a, err := Prepare(d, randomVector(rng, n))
		if err != nil {
			t.Fatal(err)
		}
		for first := 0; first < 1<<16; first += rows * 8 {
			src := randomRows(rng, d, rows*8)
			for i := range rows * 8 {
				b := src[i*d.BlockBytes():][:d.BlockBytes()]
				for _, h := range halves[d] {
					binary.LittleEndian.PutUint16(b[h:], uint16(first+i))
				}
				switch d {
				case layout.MXFP4:
					b[0] = byte(first + i)
				case layout.NVFP4:
					b[rng.IntN(4)] = byte(first + i)
				}
			}
			sameAsGeneric(t, "scales", d, src, rows, a)
		}
	}
}

// TestCalls: no call of a kernel takes more than simd.MaxCall elements, but for one row.
func TestCalls(t *testing.T) {
	calls := *active
	calls.floats = func(dst, rows, x []float32) {
		if len(rows) > simd.MaxCall || len(rows) != len(dst)*len(x) {
			t.Errorf("a call of %d products for %d elements", len(dst), len(rows))
		}
		floatsGeneric(dst, rows, x)
	}
	use(t, &calls)
	const cols, rows = 1024, 2*simd.MaxCall/1024 + 3
	x, w := make([]float32, cols), make([]float32, rows*cols)
	for r := range rows {
		x[r%cols], w[r*cols+r%cols] = 2, float32(r)
	}
	a, err := Prepare(layout.F32, x)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, rows)
	if err := Floats(got, w, a); err != nil {
		t.Fatal(err)
	}
	for r, sum := range got {
		if sum != float32(2*r) {
			t.Fatalf("row %d is %v", r, sum)
		}
	}
}

// TestGroup holds the places that assembly knows.
func TestGroup(t *testing.T) {
	var g group
	if unsafe.Offsetof(g.scales) != 256 || unsafe.Offsetof(g.codeSums) != 288 || unsafe.Offsetof(g.scaledSums) != 320 || unsafe.Offsetof(g.sums16) != 352 || unsafe.Sizeof(g) != 384 {
		t.Error("a group's fields have moved")
	}
}
