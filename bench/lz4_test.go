package bench

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// sparseWeights is size bytes of float16 weights of which two thirds are pruned, in runs:
// what LZ4 is good for. Dense weights are noise to it.
func sparseWeights(size int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, size)
	for i := 0; i < size; {
		n := min(2*(1+rng.IntN(40)), size-i)
		if rng.IntN(3) == 0 {
			for j := 0; j+1 < n; j += 2 {
				binary.LittleEndian.PutUint16(b[i+j:], uint16(rng.Uint32()))
			}
		}
		i += n
	}
	return b
}

// compressedAPR2 is an APR2 file of one compressed tensor.
func compressedAPR2(b testing.TB, d layout.DType, data []byte, shape ...int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "lz4.apr")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w, err := apr2.NewWriter(f, slices.Values([]layout.Tensor{{Name: []byte("w"), DType: d, Shape: shape, Encoding: layout.LZ4}}), nil)
	if err != nil {
		b.Fatal(err)
	}
	err = w.WriteBlocksFunc(func(dst io.Writer) error {
		c := lz4block.NewWriter(dst, lz4block.Fast)
		if _, err := c.Write(data); err != nil {
			return err
		}
		return c.Close()
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// storedBlocks are a tensor's LZ4 blocks, where they are mapped.
func storedBlocks(b testing.TB, m *loader.Model, t loader.Tensor) (blocks [][]byte) {
	b.Helper()
	mapping, err := mmapio.Map(m.Files()[0].Path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { mapping.Close() })
	stored, err := mapping.Slice(t.Offset(), t.StoredBytes())
	if err != nil {
		b.Fatal(err)
	}
	for len(stored) > 0 {
		n := binary.LittleEndian.Uint32(stored)
		blocks = append(blocks, stored[4:4+n])
		stored = stored[4+n:]
	}
	return blocks
}

// bare expands blocks into dst, over and over again from its start, in a plain loop.
func bare(b testing.TB, blocks [][]byte, raw int, dst []byte) {
	at := 0
	for _, block := range blocks {
		n, err := lz4.UncompressBlock(block, dst[at:at+min(lz4block.Size, raw)])
		if err != nil {
			b.Fatal(err)
		}
		raw -= n
		if at += n; at >= len(dst) {
			at = 0
		}
	}
	if raw != 0 {
		b.Fatalf("%d bytes are missing", raw)
	}
}

// BenchmarkLZ4 expands a compressed tensor of 64 MiB. of=bare is lz4.UncompressBlock in a
// plain loop on one core, the rest the loader, on as many as cores says; into=reused
// memory (WriteTo), into=fresh memory (Bytes that nobody caches). of=F16 goes on to float32.
func BenchmarkLZ4(b *testing.B) {
	const size, window = 64 << 20, 2 << 20
	data := sparseWeights(size)
	path := compressedAPR2(b, layout.F16, data, size/8192, 4096)
	m, err := loader.Open(path, &loader.Options{CacheBytes: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	t := firstTensor(b, m)
	blocks := storedBlocks(b, m, t)
	reused, values := make([]byte, window), make([]float32, size/2)
	run := func(name string, cores int, f func()) {
		b.Run(name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores)) // package testing sets it before each
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(t.RawBytes())/float64(t.StoredBytes()), "ratio")
		})
	}
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	run("of=bare/into=reused", 1, func() { bare(b, blocks, size, reused) })
	run("of=bare/into=fresh", 1, func() { bare(b, blocks, size, mmapio.AlignedBytes(size)) })
	for cores := 1; cores <= runtime.NumCPU(); cores *= 2 {
		run(fmt.Sprintf("of=loader/into=reused/cores=%d", cores), cores, func() { _, err := t.WriteTo(io.Discard); check(err) })
		run(fmt.Sprintf("of=loader/into=fresh/cores=%d", cores), cores, func() { _, err := t.Bytes(); check(err) })
		run(fmt.Sprintf("of=F16/cores=%d", cores), cores, func() { check(t.Dequantize(values)) })
	}
}

// BenchmarkLZ4Row reads one row of 4,096 values out of 32,768, all of them compressed, a
// different one each time, and bare what cannot be avoided: the row's block.
func BenchmarkLZ4Row(b *testing.B) {
	const rows, cols = 32_768, 4_096
	data := sparseWeights(rows * cols / 32 * 34)
	m := open(b, compressedAPR2(b, layout.Q8_0, data, rows, cols))
	t := firstTensor(b, m)
	dst := make([]float32, cols)
	if err := t.DequantizeRows(dst, rows-1, 1); err != nil { // walks all blocks
		b.Fatal(err)
	}
	b.Run("of=loader", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 2))
		b.ReportAllocs()
		for b.Loop() {
			if err := t.DequantizeRows(dst, rng.Uint64N(rows), 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	blocks := storedBlocks(b, m, t)
	b.Run("of=bare", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 2))
		buf := make([]byte, lz4block.Size)
		for b.Loop() {
			if _, err := lz4.UncompressBlock(blocks[rng.IntN(len(blocks)-1)], buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkLZ4Compress compresses 64 MiB on all cores: what LZ4 is good for, and noise.
func BenchmarkLZ4Compress(b *testing.B) {
	noise := make([]byte, 64<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for _, source := range []struct {
		name string
		data []byte
	}{{"sparse", sparseWeights(64 << 20)}, {"noise", noise}} {
		for name, level := range map[string]lz4block.Level{"fast": lz4block.Fast, "hc": lz4block.High} {
			b.Run("of="+source.name+"/level="+name, func(b *testing.B) {
				w := lz4block.NewWriter(io.Discard, level)
				b.SetBytes(int64(len(source.data)))
				for b.Loop() {
					w.Reset(io.Discard)
					if _, err := w.Write(source.data); err != nil {
						b.Fatal(err)
					}
					if err := w.Close(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(w.Raw())/float64(w.Stored()), "ratio")
			})
		}
	}
}
