package dequant

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// use makes l, over the levels below it, the active implementation until the test ends. The portable
// loops are below what is no level.
func use(t testing.TB, l *impl) {
	old, below := active, max(1, slices.Index(levels, l))
	active = overlay(append(slices.Clone(levels[:below]), l))
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

// eachKernel runs f for every kernel of every level, run and stream apart.
func eachKernel(t *testing.T, f func(t *testing.T, d layout.DType, k kernel)) {
	testmode.Sequential(t)
	for _, l := range levels {
		for _, d := range types {
			for name, k := range l.variants(d) {
				t.Run(name, func(t *testing.T) { f(t, d, k) })
			}
		}
	}
}

// variants are l's kernel for type d as one that only runs and one that streams, by name.
func (l *impl) variants(d layout.DType) map[string]kernel {
	vs, name := map[string]kernel{}, l.name+"/"+d.String()
	k := l.expand[d]
	if k.run != nil {
		vs[name] = kernel{run: k.run, step: k.step}
	}
	if k.stream != nil {
		vs[name+"/stream"] = k
	}
	return vs
}

// call runs one variant of k as its contract allows: whole steps, aligned if it streams.
func (k kernel) call(dst []float32, src []byte) {
	if k.stream != nil {
		k.stream(dst, src)
		return
	}
	k.run(dst, src)
}

func reference(d layout.DType, src []byte) []float32 {
	want := make([]float32, len(src)/d.BlockBytes()*d.BlockElems())
	generic.expand[d].run(want, src)
	return want
}

// TestOracle holds the portable loops against the formulas.
func TestOracle(t *testing.T) {
	testmode.Sequential(t)
	for _, d := range types {
		t.Run(d.String(), func(t *testing.T) {
			src := inputs(d)
			got := reference(d, src)
			elems, size, value := d.BlockElems(), d.BlockBytes(), oracles[d]
			for i, y := range got {
				block := src[i/elems*size:][:size]
				if want := value(block, i%elems); !same(d, y, want) {
					t.Fatalf("block % x, element %d: %08x (%v), want %08x (%v)", block, i%elems,
						math.Float32bits(y), y, math.Float32bits(want), want)
				}
			}
		})
	}
}

// TestKernelValues holds every kernel against the portable loop on all edge inputs.
func TestKernelValues(t *testing.T) {
	eachKernel(t, func(t *testing.T, d layout.DType, k kernel) {
		src := inputs(d)
		elems, size := d.BlockElems(), d.BlockBytes()
		blocks := simd.WholeSteps(len(src)/size, k.step)
		src = src[:blocks*size]
		want := reference(d, src)
		got := kerneltest.Aligned(len(want), 0)
		k.call(got, src)
		if i := differ(d, got, want); i >= 0 {
			t.Errorf("element %d of block % x: %08x, want %08x", i%elems, src[i/elems*size:][:size],
				math.Float32bits(got[i]), math.Float32bits(want[i]))
		}
	})
}

// TestKernelScales holds every kernel against the portable loop under each of the 65,536 halves in every place of a
// scale, or under as many upper halves of a binary32, over random codes.
func TestKernelScales(t *testing.T) {
	testmode.Sequential(t)
	if len(levels) == 1 {
		t.Skip("there are no other kernels")
	}
	const chunk = 1 << 12
	step := chunk
	if testmode.Brief() {
		step *= 16
	}
	for _, d := range types {
		if len(kerneltest.Halves[d]) == 0 && d != layout.Q8_K {
			continue
		}
		t.Run(d.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(15, uint64(d)))
			elems, size := d.BlockElems(), d.BlockBytes()
			for first := 0; first < 1<<16; first += step {
				src := randomBytes(rng, chunk*size)
				for i := range chunk {
					putScales(d, src[i*size:], uint16(first+i))
				}
				want, got := reference(d, src), kerneltest.Aligned(chunk*elems, 0)
				for _, l := range levels[1:] {
					for name, k := range l.variants(d) {
						k.call(got, src)
						if i := differ(d, got, want); i >= 0 {
							t.Fatalf("%s: element %d of block % x: %08x, want %08x", name, i%elems, src[i/elems*size:][:size],
								math.Float32bits(got[i]), math.Float32bits(want[i]))
						}
					}
				}
			}
		})
	}
}

// putScales makes h a block's scale. A second one is another half, and all of them as h is all.
func putScales(d layout.DType, block []byte, h uint16) {
	if d == layout.Q8_K {
		block[2], block[3] = byte(h), byte(h>>8)
	}
	for i, at := range kerneltest.Halves[d] {
		kerneltest.PutScale(d, block[at:], h*[]uint16{1, 40503}[i])
	}
}

// TestKernelBounds calls every kernel with counts around each vector width, at every
// alignment, and looks for stores that miss the destination.
func TestKernelBounds(t *testing.T) {
	eachKernel(t, func(t *testing.T, d layout.DType, k kernel) {
		elems, size, step := d.BlockElems(), d.BlockBytes(), max(1, k.step)
		most := max(160/elems, 3)
		pool := randomBytes(rand.New(rand.NewPCG(2, uint64(d))), (most+1)*max(step, 1)*size+64)
		for n := step; n <= max(most, 3*step); n += step {
			for skip := range 16 {
				if k.stream != nil && skip > 0 {
					break
				}
				src := pool[skip*5%17:][:n*size]
				checkGuarded(t, d, k, src, n*elems, skip)
			}
		}
	})
}

func checkGuarded(t *testing.T, d layout.DType, k kernel, src []byte, n, skip int) {
	t.Helper()
	const guard = 32
	canary := math.Float32frombits(0xdeadbeef)
	buf := kerneltest.Aligned(n+2*guard, skip)
	for i := range buf {
		buf[i] = canary
	}
	before := bytes.Clone(src)
	dst := buf[guard : guard+n : guard+n]
	k.call(dst, src)
	if i := differ(d, dst, reference(d, src)); i >= 0 {
		t.Fatalf("%d elements, dst %d floats off alignment: element %d is %v", n, skip, i, dst[i])
	}
	for i, v := range buf {
		if (i < guard || i >= guard+n) && math.Float32bits(v) != 0xdeadbeef {
			t.Fatalf("%d elements: wrote element %d outside dst", n, i-guard)
		}
	}
	if !bytes.Equal(src, before) {
		t.Fatalf("%d elements: source changed", n)
	}
}

// TestExpandLengths goes through the wrapper, which joins kernels and portable tails.
func TestExpandLengths(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, d := range types {
			elems, size := d.BlockElems(), d.BlockBytes()
			blocks := max(300/elems, 9)
			src := randomBytes(rand.New(rand.NewPCG(3, uint64(d))), blocks*size)
			want := reference(d, src)
			for n := range blocks + 1 {
				for _, large := range []bool{false, true} {
					dst := kerneltest.Aligned(n*elems, n%16)
					expand(d, dst, src[:n*size], large)
					if i := differ(d, dst, want[:n*elems]); i >= 0 {
						t.Fatalf("%v: %d blocks, large %v: element %d is %v, want %v", d, n, large, i, dst[i], want[i])
					}
				}
			}
		}
	})
}

// TestKernelContract watches what the wrappers ask of kernels: whole steps, never none, never more
// than simd.MaxCall, aligned where they stream, and in order; the rest is left to the portable loop.
func TestKernelContract(t *testing.T) {
	testmode.Sequential(t)
	for _, d := range []layout.DType{layout.I8, layout.F16, layout.Q4_0} {
		for i := range 4 * 3 {
			step, tail := []int{0, 1, 8, 24}[i/3], []int{0, 1, 5}[i%3]
			elems, size := d.BlockElems(), d.BlockBytes()
			src := randomBytes(rand.New(rand.NewPCG(14, 14)), (simd.WholeSteps(simd.MaxCall/elems, step)+3*max(step, 1)+tail)*size)
			want := reference(d, src)
			var done, streamed int
			asked := func(dst []float32, src []byte) {
				blocks := len(src) / size
				if blocks == 0 || blocks%max(step, 1) != 0 || len(src)%size != 0 || len(dst) != blocks*elems || len(dst) > simd.MaxCall {
					t.Fatalf("%v, step %d: asked for %d elements of %d bytes", d, step, len(dst), len(src))
				}
				done += len(dst)
				generic.expand[d].run(dst, src)
			}
			fake := new(impl)
			fake.expand[d] = kernel{step: step, run: asked, stream: func(dst []float32, src []byte) {
				if floatsToAligned(dst) != 0 {
					t.Fatalf("%v: stream to %p", d, &dst[0])
				}
				streamed += len(dst)
				asked(dst, src)
			}}
			use(t, fake)
			for _, large := range []bool{false, true} {
				for _, skip := range []int{0, 3} {
					done, streamed = 0, 0
					dst := kerneltest.Aligned(len(want), skip)
					expand(d, dst, src, large)
					if i := differ(d, dst, want); i >= 0 {
						t.Fatalf("%v, step %d: element %d of %d is %v, want %v", d, step, i, len(want), dst[i], want[i])
					}
					rest := len(want) - done
					if rest >= max(step, 1)*elems+16 {
						t.Errorf("%v, step %d: kernel left %d elements", d, step, rest)
					}
					mayStream := large && (skip == 0 || elems == 1)
					if (streamed > 0) != mayStream && floatsToAligned(kerneltest.Aligned(1, 1)) != 0 {
						t.Errorf("%v, large %v, skip %d: streamed %d", d, large, skip, streamed)
					}
				}
			}
		}
	}
}

// TestStreamFrom has every entry meet the size from which on kernels stream. The fakes do not touch
// the buffers, which therefore cost nothing.
func TestStreamFrom(t *testing.T) {
	const d, least = layout.F32, streamMin / (4 + 4)
	for name, f := range map[string]func(layout.DType, []float32, []byte) error{
		"Expand": Expand,
		"Codec": func(d layout.DType, dst []float32, src []byte) error {
			return plain(d).Expand(dst, src, 0, 1)
		},
		"Codec, all cores": func(d layout.DType, dst []float32, src []byte) error {
			return plain(d).Expand(dst, src, 0, AllCores)
		},
	} {
		var ran, streamed atomic.Int64
		fake := new(impl)
		fake.expand[d] = kernel{
			run:    func(dst []float32, _ []byte) { ran.Add(int64(len(dst))) },
			stream: func(dst []float32, _ []byte) { streamed.Add(int64(len(dst))) },
		}
		use(t, fake)
		dst, src := kerneltest.Aligned(least, 0), make([]byte, 4*least)
		for n, want := range map[int][2]int{least - 1: {least - 1, 0}, least: {0, least}} {
			ran.Store(0)
			streamed.Store(0)
			if err := f(d, dst[:n], src[:4*n]); err != nil {
				t.Fatal(err)
			}
			if got := [2]int{int(ran.Load()), int(streamed.Load())}; got != want {
				t.Errorf("%s of %d elements: ran and streamed %v, want %v", name, n, got, want)
			}
		}
	}
}

// TestExpandLong exceeds simd.MaxCall and streamMin, with a tail.
func TestExpandLong(t *testing.T) {
	testmode.Sequential(t)
	if testmode.Brief() {
		t.Skip("large buffers")
	}
	for _, d := range types {
		t.Run(d.String(), func(t *testing.T) {
			elems, size := d.BlockElems(), d.BlockBytes()
			blocks := streamMin/(4*elems+size) + (simd.MaxCall/2+7*maxBlock+3)/elems
			if active.expand[d].stream == nil {
				blocks = (simd.MaxCall + 3*maxBlock + 3) / elems
			}
			src := randomBytes(rand.New(rand.NewPCG(4, uint64(d))), blocks*size)
			want := reference(d, src)
			dst := kerneltest.Aligned(blocks*elems+1, 0)
			eachLevel(t, func(t *testing.T) {
				for skip := range 2 {
					dst := dst[skip:][:len(want)]
					clear(dst)
					if err := Expand(d, dst, src); err != nil {
						t.Fatal(err)
					}
					if i := differ(d, dst, want); i >= 0 {
						t.Fatalf("element %d is %v, want %v", i, dst[i], want[i])
					}
				}
			})
		})
	}
}

// TestScaledKernels holds the kernels for scaled integers against the rule in float64.
func TestScaledKernels(t *testing.T) {
	testmode.Sequential(t)
	scales := []float32{0, 1, -1, 0.1, -3.7e-3, 1e-45, 1.1754942e-38, math.MaxFloat32, float32(math.Inf(-1)), float32(math.NaN())}
	zeros := []int64{0, 1, -128, 127, 12345, maxExactZero, -maxExactZero, maxExactZero + 1, -1 << 31, 1 << 40}
	eachLevel(t, func(t *testing.T) {
		for _, d := range []layout.DType{layout.I8, layout.I16, layout.I32, layout.I64} {
			src := inputs(d)
			if d == layout.I64 { // keep clear of overflow, which has its own test
				for i := 7; i < len(src); i += 8 {
					src[i] = byte(int8(src[i]) >> 1)
				}
			}
			size := d.BlockBytes()
			n := len(src) / size
			want, got := make([]float32, n), make([]float32, n)
			for _, scale := range scales {
				for _, zero := range zeros {
					scaledByRule(want, src, size, scale, zero)
					if err := integers(d, scale, zero).Expand(got, src, 0, 1); err != nil {
						t.Fatal(err)
					}
					if i := differ(d, got, want); i >= 0 {
						t.Fatalf("%v: scale %v zero %d: element %d is %v, want %v", d, scale, zero, i, got[i], want[i])
					}
				}
			}
			scaledByRule(want, src, size, 0.25, 3)
			for m := range min(n, 200) {
				dst := kerneltest.Aligned(m+1, m%16)
				dst[m] = 7
				if err := integers(d, 0.25, 3).Expand(dst[:m], src[:m*size], 0, 1); err != nil {
					t.Fatal(err)
				}
				if i := differ(d, dst[:m], want[:m]); i >= 0 || dst[m] != 7 {
					t.Fatalf("%v: %d elements: element %d differs, guard %v", d, m, i, dst[m])
				}
			}
		}
	})
}

// scaledByRule takes integers of size bytes apart bit by bit; nothing may overflow.
func scaledByRule(dst []float32, src []byte, size int, scale float32, zero int64) {
	for i := range dst {
		q := uint64(0)
		for k, b := range src[i*size:][:size] {
			q |= uint64(b) << (8 * k)
		}
		unused := 64 - 8*size
		dst[i] = float32(float64(scale) * float64(int64(q<<unused)>>unused-zero))
	}
}
