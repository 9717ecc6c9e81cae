package dequant

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tensormap/tensormap/internal/block"
	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/layout"
)

// benchSizes are elements of output: 16 KiB (L1), 512 KiB (L2), 8 MiB (L3), 256 MiB.
var benchSizes = []int{4 << 10, 128 << 10, 2 << 20, 64 << 20}

// weightBlocks are n elements of type d as a model has them: random codes under scales that
// are plain numbers, and halves that are plain weights.
func weightBlocks(d layout.DType, n int) []byte {
	rng := rand.New(rand.NewPCG(12, uint64(d)))
	src := randomBytes(rng, n/d.BlockElems()*d.BlockBytes())
	for at := 0; at < len(src); at += d.BlockBytes() {
		b := src[at:]
		for _, h := range kerneltest.Halves[d] {
			kerneltest.PutScale(d, b[h:], block.Half(float32(rng.NormFloat64()*0.01)))
		}
		switch f := float32(rng.NormFloat64() * 0.02); d {
		case layout.F16:
			binary.LittleEndian.PutUint16(b, block.Half(f))
		case layout.BF16:
			binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(f)>>16))
		case layout.F32:
			binary.LittleEndian.PutUint32(b, math.Float32bits(f))
		case layout.MXFP4:
			b[0] = 120 + b[0]&7
		case layout.Q8_K:
			binary.LittleEndian.PutUint32(b, math.Float32bits(f))
		}
	}
	return src
}

// BenchmarkDequant counts bytes of output.
func BenchmarkDequant(b *testing.B) {
	for _, d := range types {
		for _, l := range levels {
			if l.expand[d].run == nil {
				continue
			}
			for _, n := range benchSizes {
				b.Run(fmt.Sprintf("type=%v/impl=%s/n=%d", d, l.name, n), func(b *testing.B) {
					use(b, l)
					src, dst := weightBlocks(d, n), make([]float32, n)
					b.SetBytes(int64(4 * n))
					for b.Loop() {
						if err := Expand(d, dst, src); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// conventions are quantized checkpoints as they are published, with rows of 1,024 columns.
var conventions = []struct {
	name string
	g    Grouped
}{
	{"fp8-block", Grouped{Code: layout.CodeE4M3, GroupRows: 128, GroupCols: 128}},
	{"ct-int4", Grouped{Code: 4, GroupRows: 1, GroupCols: 128}},
	{"ct-int8", Grouped{Code: layout.CodeInt8, GroupRows: 1}},
	{"mlx-4", Grouped{Code: 4, Bias: true, GroupRows: 1, GroupCols: 64}},
	{"mlx-8", Grouped{Code: 8, Bias: true, GroupRows: 1, GroupCols: 64}},
	{"mlx-3", Grouped{Code: 3, Bias: true, GroupRows: 1, GroupCols: 64}},
	{"mlx-6", Grouped{Code: 6, Bias: true, GroupRows: 1, GroupCols: 64}},
	{"bnb-nf4", Grouped{Code: layout.CodeNF4, GroupRows: 1, GroupCols: 64}},
	{"bnb-int8", Grouped{Code: layout.CodeInt8By127, GroupRows: 1}},
	{"mxfp4", Grouped{Code: layout.CodeE2M1, GroupRows: 1, GroupCols: 32}},
	{"nvfp4", Grouped{Code: layout.CodeE2M1, GroupRows: 1, GroupCols: 16}},
	{"awq", Grouped{Code: 4, Pack: layout.PackAWQ, GroupRows: 1, GroupCols: 128}},
	{"gptq-4", Grouped{Code: 4, Pack: layout.PackGPTQ, GroupRows: 1, GroupCols: 128}},
	{"gptq-8", Grouped{Code: 8, Pack: layout.PackGPTQ, GroupRows: 1, GroupCols: 128}},
	{"gptq-4-act-order", Grouped{Code: 4, Pack: layout.PackGPTQ, GroupRows: 1, GroupCols: 128, Permuted: true}},
	{"gptq-3-act-order", Grouped{Code: 3, Pack: layout.PackGPTQ, GroupRows: 1, GroupCols: 128, Permuted: true}},
	{"hqq-4", Grouped{Code: 4, Pack: layout.PackSlabs, GroupRows: 1, GroupCols: 64}},
	{"hqq-4-axis-0", Grouped{Code: 4, Pack: layout.PackSlabs, GroupCols: 1}},
	{"hqq-3", Grouped{Code: 3, Pack: layout.PackSlabs, GroupRows: 1, GroupCols: 64}},
	{"bitnet", Grouped{Code: 2, Pack: layout.PackLowSlabs}},
	{"hqq-2", Grouped{Code: 2, Pack: layout.PackSlabs, GroupRows: 1, GroupCols: 64}},
	{"ct-int3-words", Grouped{Code: 3, Pack: layout.PackWords, GroupRows: 1, GroupCols: 128}},
}

// BenchmarkGrouped counts bytes of output, as BenchmarkDequant does.
func BenchmarkGrouped(b *testing.B) {
	for _, c := range conventions {
		for _, l := range levels {
			for _, n := range benchSizes {
				b.Run(fmt.Sprintf("type=%v/impl=%s/n=%d", c.name, l.name, n), func(b *testing.B) {
					use(b, l)
					g := c.g
					g.Rows, g.Cols = uint64(n)/1024, 1024
					if g.Pack == layout.PackSlabs { // HQQ makes a row of each group, or a column
						g.Rows, g.Cols = uint64(n)/64, 64
						if g.GroupCols == 1 {
							g.Rows, g.Cols = g.Cols, g.Rows
						}
					}
					rng := rand.New(rand.NewPCG(24, 24))
					_, size := g.Codes(0, uint64(n))
					_, count := g.Scales(0, uint64(n))
					p := Parts{Codes: randomBytes(rng, int(size)), Scales: make([]float32, count)}
					for i, q := range p.Codes {
						// Weights below 2⁻⁶ under a scale that makes the largest 448 are rare, and none is a NaN.
						if g.Code == layout.CodeE4M3 && (q&0x78 == 0 && rng.IntN(256) > 0 || q&0x7f == 0x7f) {
							p.Codes[i] = q ^ 0x28
						}
					}
					for i := range p.Scales {
						p.Scales[i] = float32(rng.NormFloat64())
						if g.Code <= 8 {
							p.Offsets = append(p.Offsets, float32(rng.IntN(16)))
						}
					}
					if g.Permuted {
						for range g.Cols {
							p.GroupOf = append(p.GroupOf, int32(rng.IntN(8)))
						}
					}
					dst := make([]float32, n)
					b.SetBytes(int64(4 * n))
					for b.Loop() {
						if err := g.Expand(dst, p, 0, 1); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkParallel is the preferred implementation on all cores. It counts bytes of output.
func BenchmarkParallel(b *testing.B) {
	for _, d := range types {
		for _, n := range benchSizes {
			b.Run(fmt.Sprintf("type=%v/n=%d", d, n), func(b *testing.B) {
				src, dst := weightBlocks(d, n), make([]float32, n)
				b.SetBytes(int64(4 * n))
				for b.Loop() {
					if err := plain(d).Expand(dst, src, 0, AllCores); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
