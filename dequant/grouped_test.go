package dequant

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// A model is a Grouped tensor as the tests know it: codes, scales and offsets by element, and the
// bytes that a writer makes of the codes.
type model struct {
	Grouped
	Parts
	matrices int
	q        []uint    // by element
	want     []float32 // by element
}

// codeValue is the value of a code before its scale, by the definition of its kind.
func codeValue(c layout.Code, q uint) float32 {
	e2m1 := func() float32 { // sign, two bits of exponent with bias 1, one of mantissa
		v := math.Ldexp(1+float64(q&1)/2, int(q>>1&3)-1)
		if q>>1&3 == 0 {
			v = float64(q&1) / 2
		}
		if q&8 != 0 {
			v = math.Copysign(v, -1)
		}
		return float32(v)
	}
	switch c {
	case layout.CodeInt8, layout.CodeInt8By127:
		return float32(int8(q))
	case layout.CodeE4M3:
		return e4m3(byte(q))
	case layout.CodeE5M2:
		return half([]byte{0, byte(q)})
	case layout.CodeE2M1:
		return e2m1()
	case layout.CodeE2M1Plus:
		return e2m1() + 0 // −0 + 0 is +0
	case layout.CodeNF4: // quantiles, from the paper's appendix E
		return [16]float32{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
			-0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434,
			0.5626170039176941, 0.7229568362236023, 1}[q]
	case layout.CodeFP4: // twelfths of the numbers that bitsandbytes lists
		v := [8]float64{0, 0.0625, 8, 12, 4, 6, 2, 3}[q&7] / 12 // code 8 is −0
		if q >= 8 {
			v = -v
		}
		return float32(v)
	}
	return float32(q)
}

// value is the value of an element, by the formula of Grouped.
func (m *model) value(e int) float32 {
	row, col := e/int(m.Cols), e%int(m.Cols)
	matrix, r := row/int(m.Rows), row%int(m.Rows)
	ceil := func(n, d uint64) int {
		if d == 0 {
			return 1
		}
		return int((n + d - 1) / d)
	}
	groupRow, groupCol := 0, 0
	if m.GroupRows > 0 {
		groupRow = r / int(m.GroupRows)
	}
	if m.GroupCols > 0 {
		groupCol = col / int(m.GroupCols)
	}
	if m.Permuted {
		groupCol = int(m.GroupOf[col])
	}
	columns := int(m.ScaleCols)
	if columns == 0 {
		columns = ceil(m.Cols, m.GroupCols)
	}
	at := (matrix*ceil(m.Rows, m.GroupRows)+groupRow)*columns + groupCol
	s, o, v := m.Parts.Scales[at], float32(0), codeValue(m.Code, m.q[e])
	switch len(m.Offsets) {
	case 0:
	case 1:
		o = m.Offsets[0]
	default:
		o = m.Offsets[at]
	}
	switch {
	case m.Bias:
		return add(mul(v, s), o)
	case m.Code == layout.CodeInt8By127:
		return mul(mul(v, s), float32(1.0)/127)
	}
	return mul(add(v, -o), s)
}

var (
	planeWidths = [8][]int{3: {2, 1}, 5: {4, 1}, 6: {4, 2}, 7: {4, 2, 1}} // by a code's bits
	awqRows     = [8]int{0, 2, 4, 6, 1, 3, 5, 7}                          // by nibble
)

// pack writes the codes as m's Packing says: bit by bit.
func (m *model) pack() {
	b := m.Code.Bits()
	rows, cols := int(m.Rows), int(m.Cols)
	var out []byte
	set := func(base, bit int, q uint) { // a code at a bit of a stream that begins at byte base
		for i := range b {
			at := base + (bit+i)/8
			for len(out) <= at {
				out = append(out, 0)
			}
			out[at] |= byte(q>>i&1) << ((bit + i) % 8)
		}
	}
	grow := func(n int) {
		for len(out) < n {
			out = append(out, 0)
		}
	}
	for matrix := range m.matrices {
		begin := len(out)
		for r := range rows {
			for c := range cols {
				q := m.q[(matrix*rows+r)*cols+c]
				switch m.Pack {
				case layout.PackRows:
					stride := int(m.RowBytes)
					if stride == 0 {
						stride = (cols*b + 7) / 8
					}
					at := c * b
					if m.Code == layout.CodeNF4 || m.Code == layout.CodeFP4 {
						at = c/2*8 + 4 - c%2*4
					}
					set(begin+r*stride, at, q)
					grow(begin + (r+1)*stride)
				case layout.PackWords:
					per := 32 / b
					stride := (cols + per - 1) / per * 4
					set(begin+r*stride+c/per*4, c%per*b, q)
					grow(begin + (r+1)*stride)
				case layout.PackGPTQ:
					for i := range b { // bit by bit, as words lie rows apart
						word, in := (c*b+i)/32, (c*b+i)%32
						at := begin + (word*rows+r)*4 + in/8
						grow(at + 1)
						out[at] |= byte(q>>i&1) << (in % 8)
					}
					grow(begin + (cols*b+31)/32*rows*4)
				case layout.PackPlanes:
					grow(begin + cols*b/32*rows*4)
					widths := planeWidths[b]
					for plane, bit := c/32*b, 0; bit < b; widths = widths[1:] {
						w := widths[0]
						for i := range w {
							at := c%32*w + i // in the plane
							out[begin+((plane+at/32)*rows+r)*4+at%32/8] |= byte(q>>(bit+i)&1) << (at % 8)
						}
						plane, bit = plane+w, bit+w
					}
				case layout.PackAWQ:
					words := (rows + 7) / 8
					grow(begin + cols*words*4)
					at := begin + (c*words+r/8)*4
					place := slices.Index(awqRows[:], r%8)
					out[at+place/2] |= byte(q) << (place % 2 * 4)
				case layout.PackSlabs, layout.PackLowSlabs:
					if b == 3 {
						slab := (rows + 9) / 10
						grow(begin + slab*cols*4)
						at := begin + (r%slab*cols+c)*4
						w := binary.LittleEndian.Uint32(out[at:])
						binary.LittleEndian.PutUint32(out[at:], w|uint32(q)<<(27-3*(r/slab)))
						break
					}
					slab := (rows + 8/b - 1) / (8 / b)
					grow(begin + slab*cols)
					shift := 8 - b*(r/slab+1)
					if m.Pack == layout.PackLowSlabs {
						shift = b * (r / slab)
					}
					out[begin+r%slab*cols+c] |= byte(q) << shift
				}
			}
		}
	}
	m.Parts.Codes = out
}

// newModel fills a tensor of matrices with random codes, scales and offsets.
func newModel(rng *rand.Rand, g Grouped, matrices int, offsets int) *model {
	m := &model{Grouped: g, matrices: matrices}
	for range matrices * int(g.Rows*g.Cols) {
		m.q = append(m.q, uint(rng.IntN(1<<g.Code.Bits())))
	}
	rows, cols := groups(g.Rows, g.GroupRows), groups(g.Cols, g.GroupCols)
	if g.ScaleCols != 0 {
		cols = g.ScaleCols
	}
	n := matrices * int(rows*cols)
	for range n {
		s := float32(rng.NormFloat64()) * 0.01
		if rng.IntN(16) == 0 { // any number
			s = math.Float32frombits(rng.Uint32())
		}
		m.Parts.Scales = append(m.Parts.Scales, s)
	}
	switch offsets {
	case 1:
		m.Offsets = []float32{float32(int(1) << (g.Code.Bits() - 1))}
	case 2:
		for range n {
			o := float32(rng.IntN(256))
			if g.Bias {
				o = float32(rng.NormFloat64())
			}
			m.Offsets = append(m.Offsets, o)
		}
	}
	if g.Permuted {
		for range g.Cols {
			m.GroupOf = append(m.GroupOf, int32(rng.IntN(int(groups(g.Cols, g.GroupCols)))))
		}
	}
	m.pack()
	for e := range m.q {
		m.want = append(m.want, m.value(e))
	}
	return m
}

// check expands elements [first, first+n) and holds them against the formula.
func (m *model) check(t *testing.T, first, n, skip, cores int) {
	t.Helper()
	p := m.Parts
	off, size := m.Grouped.Codes(uint64(first), uint64(n))
	p.Codes = slices.Clone(p.Codes[off:][:size]) // nothing lies behind it, nor behind scales and offsets
	off, size = m.Grouped.Scales(uint64(first), uint64(n))
	p.Scales = slices.Clip(p.Scales[off:][:size])
	if len(p.Offsets) > 1 {
		p.Offsets = slices.Clip(p.Offsets[off:][:size])
	}
	buf := kerneltest.Aligned(n+2, skip)
	buf[0], buf[n+1] = 7, 7
	if err := m.Expand(buf[1:n+1], p, uint64(first), cores); err != nil {
		t.Fatalf("%+v: %v", m.Grouped, err)
	}
	if buf[0] != 7 || buf[n+1] != 7 {
		t.Fatalf("%+v: [%d, +%d): wrote outside dst", m.Grouped, first, n)
	}
	for i, got := range buf[1 : n+1] {
		if want := m.want[first+i]; math.Float32bits(got) != math.Float32bits(want) && !(got != got && want != want) {
			t.Fatalf("%+v: [%d, +%d): element %d of code %d is %08x (%v), want %08x (%v)", m.Grouped, first, n, first+i, m.q[first+i],
				math.Float32bits(got), got, math.Float32bits(want), want)
		}
	}
}

// packings are the descriptions that have kernels, over all codes.
func packings() (all []Grouped) {
	for c := range layout.Code(numCodes) {
		for p := range layout.PackPlanes + 1 {
			for _, bias := range []bool{false, true} {
				if g := (Grouped{Code: c, Pack: p, Bias: bias}); g.Check() == nil {
					all = append(all, g)
				}
			}
		}
	}
	return all
}

// TestGrouped expands ranges of tensors of every code in every packing, with groups of many sizes,
// and holds every element against the formula.
func TestGrouped(t *testing.T) {
	testmode.Sequential(t)
	rounds := 40
	if testmode.Brief() {
		rounds = 8
	}
	eachLevel(t, func(t *testing.T) {
		rounds := rounds
		if active.name == generic.name && len(levels) > 1 {
			rounds = 8 // kernels leave rows of all sorts to the portable loops
		}
		rng := rand.New(rand.NewPCG(21, 21))
		pick := func(n ...uint64) uint64 { return n[rng.IntN(len(n))] }
		for _, g := range packings() {
			for range rounds {
				g := g
				g.Rows, g.Cols = pick(1, 2, 3, 8, 17, 40, 72, 130), pick(1, 5, 8, 31, 32, 64, 96, 100, 128, 200, 256)
				g.GroupRows, g.GroupCols = pick(0, 1, 1, 1, 3, 128), pick(0, 1, 3, 8, 16, 32, 32, 64, 128)
				if g.Code == layout.CodeInt8By127 {
					g.GroupCols = 0
				}
				if g.Pack == layout.PackPlanes {
					g.Cols = pick(32, 64, 96, 704, 1024) // more than a tile too
				}
				g.Permuted = g.Code != layout.CodeInt8By127 && rng.IntN(6) == 0
				if rng.IntN(4) == 0 {
					g.ScaleCols = groups(g.Cols, g.GroupCols) + pick(0, 1, 3)
				}
				if g.Pack == layout.PackRows && rng.IntN(4) == 0 {
					g.RowBytes = g.minRowBytes() + pick(0, 1, 4)
				}
				offsets := rng.IntN(3)
				if g.Code > 8 {
					offsets = 0
				}
				if g.Code >= layout.CodeInt8 && g.Code != layout.CodeInt8By127 && rng.IntN(4) == 0 {
					offsets = rng.IntN(3)
				}
				matrices := int(pick(1, 1, 2, 3))
				m := newModel(rng, g, matrices, offsets)
				all := matrices * int(g.Rows*g.Cols)
				m.check(t, 0, all, rng.IntN(16), 1)
				for range 6 {
					first := rng.IntN(all)
					m.check(t, first, 1+rng.IntN(all-first), rng.IntN(16), 1)
				}
				row := rng.IntN(matrices * int(g.Rows))
				m.check(t, row*int(g.Cols), int(g.Cols), 0, 1)
			}
		}
	})
}

// TestGroupedLarge shares tensors out to goroutines.
func TestGroupedLarge(t *testing.T) {
	rng := rand.New(rand.NewPCG(22, 22))
	for _, g := range []Grouped{
		{Code: 4, GroupRows: 1, GroupCols: 128},
		{Code: layout.CodeE4M3, GroupRows: 128, GroupCols: 128},
		{Code: 4, Pack: layout.PackGPTQ, GroupRows: 1, GroupCols: 128, Permuted: true},
		{Code: 4, Pack: layout.PackAWQ, GroupRows: 1, GroupCols: 128},
		{Code: layout.CodeNF4, Rows: 1, Cols: 200_000, GroupRows: 1, GroupCols: 64}, // of bitsandbytes: more than a share before the first
	} {
		if g.Rows == 0 {
			g.Rows, g.Cols = 200, 1000
		}
		m := newModel(rng, g, 2, min(int(8/g.Code), 2))
		for _, first := range []int{0, 1234, 131_072} {
			m.check(t, first, 400_000-2*first, 0, AllCores)
		}
	}
}

// TestGroupedBytes expands bytes assembled by hand from the tables of their formats.
func TestGroupedBytes(t *testing.T) {
	word := binary.LittleEndian.AppendUint32
	tests := []struct {
		name string
		g    Grouped
		p    Parts
		want []float32
	}{
		{"AutoAWQ: columns 0 to 7 at shifts 0, 16, 4, 20, 8, 24, 12, 28; a row for each input",
			Grouped{Code: 4, Pack: layout.PackAWQ, Rows: 8, Cols: 2, GroupRows: 1},
			Parts{Codes: word(word(nil, 0x7531_6420), 0x0000_000f), Scales: []float32{1, 1, 1, 1, 2, 1, 1, 1}, Offsets: []float32{0, 0, 0, 1, 0, 0, 0, 0}},
			[]float32{0, 15, 1, 0, 2, 0, 2, -1, 8, 0, 5, 0, 6, 0, 7, 0}},
		{"GPTQ of 3 bits: values 10 and 21 straddle words",
			Grouped{Code: 3, Pack: layout.PackGPTQ, Rows: 1, Cols: 32, GroupRows: 1},
			Parts{Codes: word(word(word(nil, 3<<30), 1|1<<31), 2), Scales: []float32{1}},
			append(append(make([]float32, 10), 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)},
		{"GPTQ of 3 bits in planes: two words of the low bits, one of the third",
			Grouped{Code: 3, Pack: layout.PackPlanes, Rows: 1, Cols: 32, GroupRows: 1},
			Parts{Codes: word(word(word(nil, 1|2<<30), 3), 1|1<<31), Scales: []float32{1}},
			append(append([]float32{5}, make([]float32, 14)...), 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4)},
		{"bitsandbytes: the first element in the upper nibble, blocks across rows",
			Grouped{Code: layout.CodeNF4, Rows: 1, Cols: 5, GroupRows: 1, GroupCols: 4},
			Parts{Codes: []byte{0x0f, 0x7f, 0xf0}, Scales: []float32{2, 3}},
			[]float32{-2, 2, 0, 2, 3}},
		{"compressed-tensors of 4 bits, offset 8",
			Grouped{Code: 4, Rows: 1, Cols: 8, GroupRows: 1, GroupCols: 4},
			Parts{Codes: word(nil, 0xf0_9_8_7_6_5_4), Scales: []float32{0.5, 2}, Offsets: []float32{8}},
			[]float32{-2, -1.5, -1, -0.5, 0, 2, -16, 14}},
		{"E2M1 in all sixteen codes",
			Grouped{Code: layout.CodeE2M1, Rows: 1, Cols: 16, GroupRows: 1, GroupCols: 16},
			Parts{Codes: []byte{0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}, Scales: []float32{2}},
			[]float32{0, 1, 2, 3, 4, 6, 8, 12, float32(math.Copysign(0, -1)), -1, -2, -3, -4, -6, -8, -12}},
		{"MLX of 6 bits: scale · q + bias",
			Grouped{Code: 6, Bias: true, Rows: 1, Cols: 4, GroupRows: 1, GroupCols: 4},
			Parts{Codes: []byte{0x3f, 0x10, 0xfc}, Scales: []float32{0.5}, Offsets: []float32{-1}},
			[]float32{30.5, -1, -0.5, 30.5}},
		{"HQQ of 2 bits: four slabs, the first in the highest bits",
			Grouped{Code: 2, Pack: layout.PackSlabs, Rows: 4, Cols: 2, GroupRows: 1},
			Parts{Codes: []byte{0b11_10_01_00, 0b00_01_10_11}, Scales: []float32{1, 1, 1, 2}, Offsets: []float32{0, 0, 0, 0.5}},
			[]float32{3, 0, 2, 1, 1, 2, -1, 5}},
		{"BitNet: four slabs, the first in the lowest bits",
			Grouped{Code: 2, Pack: layout.PackLowSlabs, Rows: 4, Cols: 2},
			Parts{Codes: []byte{0b10_01_00_10, 0b00_00_10_01}, Scales: []float32{0.5}, Offsets: []float32{1}},
			[]float32{0.5, 0, -0.5, 0.5, 0, -0.5, 0.5, -0.5}},
		{"FP8 blocks of 2 × 2 with short edges",
			Grouped{Code: layout.CodeE4M3, Rows: 3, Cols: 3, GroupRows: 2, GroupCols: 2},
			Parts{Codes: []byte{0x38, 0x38, 0x38, 0x40, 0xb8, 0x38, 0x38, 0x38, 0x7e}, Scales: []float32{1, 2, 3, 4}},
			[]float32{1, 1, 2, 2, -1, 2, 3, 3, 1792}},
		{"bitsandbytes' int8",
			Grouped{Code: layout.CodeInt8By127, Rows: 2, Cols: 2, GroupRows: 1},
			Parts{Codes: []byte{127, 0x81, 1, 0}, Scales: []float32{1, 127}},
			[]float32{1, -1, 1, 0}},
	}
	for _, tt := range tests {
		got := make([]float32, len(tt.want))
		if err := tt.g.Expand(got, tt.p, 0, 1); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		for i, want := range tt.want {
			if math.Float32bits(got[i]) != math.Float32bits(want) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
				break
			}
		}
	}
}

// eachGroupKernel runs f for every kernel that expands groups. kind is its place in the table, c its
// code.
func eachGroupKernel(t *testing.T, f func(t *testing.T, c, kind int, k groupKernel)) {
	for _, l := range levels {
		for kind, k := range l.grouped {
			if k.run == nil {
				continue
			}
			c := kind
			if biased < kind && kind <= 2*biased {
				c -= biased
			}
			name := fmt.Sprintf("%s/%d", l.name, kind)
			t.Run(name, func(t *testing.T) { f(t, c, kind, groupKernel{run: k.run, step: k.step, takesPairs: k.takesPairs}) })
			if k.stream != nil {
				t.Run(name+"/stream", func(t *testing.T) { f(t, c, kind, k) })
			}
		}
	}
}

// parts returns random codes of n elements and their scales and offsets, edges among them: one for
// each of so many groups.
func (k groupKernel) parts(rng *rand.Rand, c, n, groups int) (codes []byte, scales, offsets []float32) {
	codes = randomBytes(rng, n/8*layout.Code(c).Bits())
	edges := []float32{0, 1, -1, 0.01, 1e-45, -1e-39, 1e38, math.MaxFloat32, float32(math.Inf(1)), float32(math.NaN()), float32(math.Copysign(0, -1))}
	for range groups {
		s, o := float32(rng.NormFloat64()), float32(rng.IntN(16))
		if rng.IntN(3) == 0 {
			s = edges[rng.IntN(len(edges))]
		}
		if rng.IntN(6) == 0 {
			o = edges[rng.IntN(len(edges))]
		}
		if layout.Code(c) >= layout.CodeInt8By127 {
			o = 0
		}
		scales, offsets = append(scales, s), append(offsets, o)
	}
	return codes, scales, offsets
}

// TestGroupKernels holds every kernel against the portable one: every byte in every place, groups of
// several sizes, one scale for all, every alignment, and guards around dst.
func TestGroupKernels(t *testing.T) {
	testmode.Sequential(t)
	rng := rand.New(rand.NewPCG(25, 25))
	eachGroupKernel(t, func(t *testing.T, c, kind int, k groupKernel) {
		run := k.run
		if k.stream != nil {
			run = k.stream
		}
		for _, group := range []int{16, 32, 64, 96, 128, 2048} {
			if group%k.step != 0 && !(group == 16 && k.takesPairs) {
				continue
			}
			for groups := 1; groups <= 4; groups++ {
				if group == 16 && k.takesPairs && groups%2 == 1 {
					continue
				}
				for round := range 16 {
					n := group * groups
					codes, scales, offsets := k.parts(rng, c, n, groups)
					if group == 2048 { // all codes
						for i := range codes {
							codes[i] = byte(i + round)
						}
					}
					if round%4 == 1 {
						scales = scales[:1]
					}
					if round%4 == 2 {
						offsets = offsets[:1]
					}
					skip := round
					if k.stream != nil {
						skip = 0
					}
					src := append(make([]byte, round, round+len(codes)), codes...)[round:]
					want, buf := make([]float32, n), kerneltest.Aligned(n+32, skip)
					for i := range buf {
						buf[i] = 7
					}
					generic.grouped[kind].run(want, codes, scales, offsets, group)
					run(buf[16:16+n:16+n], src, scales, offsets, group)
					for i, v := range buf {
						if i < 16 || i >= 16+n {
							if v != 7 {
								t.Fatalf("%d groups of %d: wrote element %d outside dst", groups, group, i-16)
							}
						} else if w := want[i-16]; math.Float32bits(v) != math.Float32bits(w) && !(v != v && w != w) {
							t.Fatalf("%d groups of %d: element %d is %08x, want %08x", groups, group, i-16, math.Float32bits(v), math.Float32bits(w))
						}
					}
				}
			}
		}
	})
}

// TestTransposers holds every transposer against the portable one.
func TestTransposers(t *testing.T) {
	rng := rand.New(rand.NewPCG(26, 26))
	for _, l := range levels[1:] {
		if l.transpose.words == nil {
			continue
		}
		for rows := 8; rows <= 40; rows += 8 {
			for columns := 8; columns <= 40; columns += 8 {
				stride := 4 * (columns + rng.IntN(3)*3)
				src := randomBytes(rng, (rows-1)*stride+4*columns)
				src = src[:len(src):len(src)]
				got, want := make([]byte, 8<<10), make([]byte, 8<<10)
				check := func(name string) {
					if i := kerneltest.FirstDifference(got, want); i >= 0 {
						t.Fatalf("%s: %s of %d × %d: byte %d is %#x, want %#x", l.name, name, rows, columns, i, got[i], want[i])
					}
				}
				l.transpose.words(got, 192, src, stride, rows, columns)
				wordsGeneric(want, 192, src, stride, rows, columns)
				check("words")
				l.transpose.nibbles(got, 168, 1<<10, src, stride, rows, columns)
				nibblesGeneric(want, 168, 1<<10, src, stride, rows, columns)
				check("nibbles")
			}
		}
	}
}

// TestPermuted holds the kernels for permuted columns against the portable loop, with numbers of every kind
// and guards around the rows.
func TestPermuted(t *testing.T) {
	rng := rand.New(rand.NewPCG(28, 28))
	for _, l := range levels[1:] {
		for bits, k := range l.permuted {
			if k == nil {
				continue
			}
			for columns := 32; columns <= 256; columns += 32 {
				groups, skip, stride := 1+rng.IntN(9), columns/32, columns+rng.IntN(9)
				_, scales, offsets := groupKernel{}.parts(rng, bits, 0, tileRows*groups)
				words := randomBytes(rng, columns*bits/32*4*tileRows)
				of := make([]int32, columns)
				for i := range of {
					of[i] = int32(rng.IntN(groups))
				}
				got := kerneltest.Aligned(8*stride+16, skip)
				for i := range got {
					got[i] = 7
				}
				want := slices.Clone(got)
				from := 8 * rng.IntN(tileRows/8)
				k(got[8:][:7*stride+columns], stride, words[4*from:], columns, of, scales[from:], offsets[from:])
				permutedRows(bits)(want[8:], stride, words[4*from:], columns, of, scales[from:], offsets[from:])
				for i, v := range got {
					if w := want[i]; math.Float32bits(v) != math.Float32bits(w) && !(v != v && w != w) {
						t.Fatalf("%s: %d bits, %d columns: value %d is %v, want %v", l.name, bits, columns, i, v, w)
					}
				}
			}
		}
	}
}

// TestEach holds the kernels that take a scale for each value against the portable loop.
func TestEach(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 29))
	for _, l := range levels[1:] {
		if l.scaleEach == nil {
			continue
		}
		for n := 8; n <= 64; n += 8 {
			_, scales, offsets := groupKernel{}.parts(rng, 4, 0, n)
			got := kerneltest.Aligned(n+2, n/8)
			for i := range got {
				got[i] = float32(rng.IntN(16))
			}
			want := slices.Clone(got)
			l.scaleEach(got[1:n+1], scales, offsets)
			rescale(want[1:n+1], scales, offsets, nil, false)
			for i, v := range got {
				if w := want[i]; math.Float32bits(v) != math.Float32bits(w) && !(v != v && w != w) {
					t.Fatalf("%s: value %d of %d is %v, want %v", l.name, i-1, n, v, w)
				}
			}
		}
	}
}

// TestGroupedErrors has descriptions and parts that do not fit.
func TestGroupedErrors(t *testing.T) {
	four := Grouped{Code: 4, Rows: 2, Cols: 64, GroupRows: 1, GroupCols: 32}
	with := func(f func(g *Grouped)) Grouped {
		g := four
		f(&g)
		return g
	}
	for _, g := range []Grouped{
		{}, {Code: 9}, {Code: 16}, {Code: 33}, {Code: layout.Code(numCodes)}, {Code: 4, Pack: layout.PackPlanes + 1}, {Code: layout.CodeE4M3, Bias: true}, {Code: layout.CodeNF4, Pack: layout.PackGPTQ},
		{Code: 8, Pack: layout.PackAWQ}, {Code: 5, Pack: layout.PackSlabs}, {Code: 3, Pack: layout.PackLowSlabs}, {Code: layout.CodeInt8By127, GroupCols: 8},
	} {
		if err := g.Check(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%+v: %v", g, err)
		}
	}
	for _, g := range []Grouped{
		with(func(g *Grouped) { g.Rows = math.MaxUint64 }),
		with(func(g *Grouped) { g.Rows, g.Cols = 0, math.MaxUint64 }),
		with(func(g *Grouped) { g.RowBytes = 31 }),
		with(func(g *Grouped) { g.RowBytes = math.MaxUint64 }),
		with(func(g *Grouped) { g.ScaleCols = 1 }),
		with(func(g *Grouped) { g.ScaleCols = math.MaxUint64 }),
		with(func(g *Grouped) { g.Pack, g.RowBytes = layout.PackGPTQ, 64 }),
	} {
		if err := g.Check(); !errors.Is(err, ErrLength) {
			t.Errorf("%+v: %v", g, err)
		}
		if err := g.Expand(make([]float32, 1), Parts{}, 0, 1); !errors.Is(err, ErrLength) {
			t.Errorf("%+v: %v", g, err)
		}
	}
	good := func() Parts { return Parts{Codes: make([]byte, 64), Scales: make([]float32, 4)} }
	for name, f := range map[string]func(g *Grouped, p *Parts){
		"codes":           func(_ *Grouped, p *Parts) { p.Codes = p.Codes[1:] },
		"scales":          func(_ *Grouped, p *Parts) { p.Scales = p.Scales[1:] },
		"offsets":         func(_ *Grouped, p *Parts) { p.Offsets = make([]float32, 3) },
		"groups":          func(g *Grouped, p *Parts) { g.Permuted, p.GroupOf = true, make([]int32, 63) },
		"no groups":       func(g *Grouped, p *Parts) { g.Permuted = true },
		"not permuted":    func(g *Grouped, p *Parts) { p.GroupOf = make([]int32, 3) },
		"group too large": func(g *Grouped, p *Parts) { g.Permuted, p.GroupOf = true, append(make([]int32, 63), 2) },
		"group below 0":   func(g *Grouped, p *Parts) { g.Permuted, p.GroupOf = true, append(make([]int32, 63), -1) },
		"no columns":      func(g *Grouped, p *Parts) { g.Cols = 0 },
	} {
		g, p := four, good()
		f(&g, &p)
		if err := g.Expand(make([]float32, 128), p, 0, 1); !errors.Is(err, ErrLength) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := four.Expand(make([]float32, 128), good(), math.MaxUint64-64, 1); !errors.Is(err, ErrLength) {
		t.Error(err)
	}
	by127 := Grouped{Code: layout.CodeInt8By127, Rows: 1, Cols: 1}
	if err := by127.Expand(make([]float32, 1), Parts{Codes: []byte{1}, Scales: []float32{1}, Offsets: []float32{0}}, 0, 1); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if err := four.Expand(nil, Parts{}, 7, 1); err != nil {
		t.Error(err)
	}
}

// TestGroupedAllocations expects none for a row.
func TestGroupedAllocations(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 23))
	for _, g := range []Grouped{
		{Code: 4, GroupRows: 1, GroupCols: 128},
		{Code: 3, Bias: true, GroupRows: 1, GroupCols: 64},
		{Code: layout.CodeE4M3, GroupRows: 128, GroupCols: 128},
		{Code: 4, Pack: layout.PackGPTQ, GroupRows: 1, GroupCols: 128, Permuted: true},
		{Code: 4, Pack: layout.PackAWQ, GroupRows: 1, GroupCols: 128},
		{Code: 2, Pack: layout.PackSlabs, GroupRows: 1, GroupCols: 128},
		{Code: 2, Pack: layout.PackLowSlabs},
	} {
		g.Rows, g.Cols = 8, 1024
		m := newModel(rng, g, 1, 0)
		dst, p := make([]float32, g.Cols), m.Parts
		off, size := g.Codes(2*g.Cols, g.Cols)
		p.Codes = p.Codes[off:][:size]
		off, size = g.Scales(2*g.Cols, g.Cols)
		p.Scales = p.Scales[off:][:size]
		if n := testing.AllocsPerRun(100, func() {
			if err := g.Expand(dst, p, 2*g.Cols, AllCores); err != nil {
				t.Fatal(err)
			}
		}); n != 0 && !testmode.Races() {
			t.Errorf("%+v: %v allocations", g, n)
		}
	}
}

// TestDense: rows of one slab take their own codes, and all others those of the matrix.
func TestDense(t *testing.T) {
	for _, tt := range []struct {
		g         Grouped
		first, n  uint64
		off, size uint64
		dense     bool
	}{
		{Grouped{Code: 2, Pack: layout.PackLowSlabs, Rows: 8, Cols: 10}, 10, 10, 10, 10, true},
		{Grouped{Code: 2, Pack: layout.PackLowSlabs, Rows: 8, Cols: 10}, 53, 4, 13, 4, true},
		{Grouped{Code: 2, Pack: layout.PackLowSlabs, Rows: 8, Cols: 10}, 10, 11, 0, 20, false},
		{Grouped{Code: 2, Pack: layout.PackSlabs, Rows: 8, Cols: 10}, 80 + 70, 10, 20 + 10, 10, true}, // of the second matrix
		{Grouped{Code: 2, Pack: layout.PackSlabs, Rows: 8, Cols: 10}, 70, 20, 0, 40, false},
		{Grouped{Code: 3, Pack: layout.PackSlabs, Rows: 30, Cols: 5}, 29 * 5, 5, 40, 20, true},
		{Grouped{Code: 4, Pack: layout.PackAWQ, Rows: 8, Cols: 16}, 0, 16, 0, 64, false},
		{Grouped{Code: 4, Rows: 8, Cols: 16}, 12, 30, 6, 15, true},
		{Grouped{Code: 4, Pack: layout.PackAWQ, Rows: 8, Cols: 16}, 5, 0, 0, 0, true},
	} {
		off, size := tt.g.Codes(tt.first, tt.n)
		if dense := tt.g.Dense(tt.first, tt.n); dense != tt.dense || off != tt.off || size != tt.size {
			t.Errorf("%+v: [%d, +%d): %v, bytes [%d, +%d)", tt.g, tt.first, tt.n, dense, off, size)
		}
	}
}

func TestTranspose(t *testing.T) {
	for _, size := range [][2]int{{0, 3}, {1, 1}, {3, 40}, {33, 17}} {
		rows, cols := size[0], size[1]
		src, dst := make([]float32, rows*cols), make([]float32, rows*cols)
		for i := range src {
			src[i] = float32(i)
		}
		Transpose(dst, src, rows, cols)
		for i, v := range dst {
			if want := float32(i%rows*cols + i/rows); v != want {
				t.Fatalf("%v: %d is %v, want %v", size, i, v, want)
			}
		}
	}
}

func TestCodeTable(t *testing.T) {
	for c := range layout.Code(numCodes + 3) {
		values, ok := Table(c)
		if want := c >= layout.CodeE2M1 && c <= layout.CodeFP4; ok != want {
			t.Errorf("%d: %v", c, ok)
		}
		for q := range values {
			if ok && math.Float32bits(values[q]) != math.Float32bits(codeValue(c, uint(q))) {
				t.Errorf("%d: code %d is %v", c, q, values[q])
			}
		}
	}

}
