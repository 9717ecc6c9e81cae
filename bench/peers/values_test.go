package peers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// A judge compares the results of dequant and ggml for the same random blocks.
type judge struct {
	w         io.Writer
	expanders []peer
	blocks    int
	seed      uint64
}

var errMismatch = errors.New("values differ from ggml's")

// all visits every type in both directions, and prints for each how many blocks were compared.
func (j *judge) all(types typeSet) error {
	var bad int64
	for _, p := range chosen(types, j.expanders) {
		bad += j.report(p, "blocks", "elements", j.expansions(p))
	}
	for _, p := range chosen(types, dotPeers) {
		bad += j.report(p.peer, "products", "products", j.products(p))
	}
	if contracts() {
		fmt.Fprintln(j.w, "note: without -ffp-contract=off ggml's quantizers may round once where ISO C rounds twice")
	}
	for _, p := range chosen(types, ggmlQuantizers) {
		bad += j.report(p, "rows", "rows", j.quantizations(p, oursQuantizing(p.d, 1)))
	}
	for _, p := range chosen(types, ggmlWeighted) {
		bad += j.report(p, "rows", "rows", j.quantizations(p, oursWeighing(p.d, 1)))
	}
	if bad > 0 {
		return errMismatch
	}
	return nil
}

// A verdict counts comparisons. Undefined are mismatches for which the C standard leaves the result
// open. Even are blocks that importance leaves nothing of, and that dequant weighs evenly.
type verdict struct {
	compared, mismatches, undefined, even int64
	first                                 string // the first mismatch
}

func (v *verdict) mismatch(detail func() string) {
	if v.mismatches++; v.mismatches == 1 {
		v.first = detail()
	}
}

func (j *judge) report(p peer, unit, what string, run func(v *verdict)) int64 {
	var v verdict
	start := time.Now()
	run(&v)
	fmt.Fprintf(j.w, "%-7v %-25s %11d %s, %d mismatching %s", p.d, p.name, v.compared, unit, v.mismatches, what)
	if v.undefined > 0 {
		fmt.Fprintf(j.w, ", %d more where C leaves the result undefined", v.undefined)
	}
	if v.even > 0 {
		fmt.Fprintf(j.w, ", %d weighed evenly", v.even)
	}
	fmt.Fprintf(j.w, " (%.1f s)\n", time.Since(start).Seconds())
	if v.first != "" {
		fmt.Fprintln(j.w, "   ", v.first)
	}
	return v.mismatches
}

// weighedBatch is a number of elements with the same importance.
const weighedBatch = 1 << 20

// batch is a number of elements for which dequant stores past the caches (its streamMin is less).
// The shorter part is odd, so that kernels meet every remainder.
const (
	batch = 8 << 20
	part  = 8<<10 + 13*maxBlock
)

// expansions compares p's type: every batch as one call of ours and as many.
func (j *judge) expansions(p peer) func(*verdict) {
	return func(v *verdict) {
		rng := rand.New(rand.NewPCG(j.seed, uint64(p.d)))
		elems, size := p.d.BlockElems(), p.d.BlockBytes()
		blocks := make([]byte, sizeOf(p.d, batch))
		want, got := make([]float32, batch), make([]float32, batch)
		we := oursExpanding(p.d, 1)
		for i := 0; v.compared < int64(j.blocks); i++ {
			n := min(batch/elems, j.blocks-int(v.compared))
			b, want, got := blocks[:n*size], want[:n*elems], got[:n*elems]
			if i%2 == 0 {
				fillRandom(rng, b)
			} else {
				fillPlain(rng, p.d, b)
			}
			p.run(want, b, 1)
			we.run(got, b, 1)
			compareFloats(v, p.d, b, got, want)
			inParts(we, got, b)
			compareFloats(v, p.d, b, got, want)
			v.compared += int64(n)
		}
	}
}

// inParts expands short parts, each at another place of the cache line.
func inParts(p peer, floats []float32, blocks []byte) {
	clear(floats)
	for lo := 0; lo < len(floats); lo += part {
		hi := min(lo+part, len(floats))
		p.run(floats[lo:hi], blocks[sizeOf(p.d, lo):sizeOf(p.d, hi)], 1)
	}
}

func compareFloats(v *verdict, d layout.DType, blocks []byte, got, want []float32) {
	if bytes.Equal(mmapio.Bytes(got), mmapio.Bytes(want)) {
		return
	}
	for i, w := range want {
		g := got[i]
		if math.Float32bits(g) == math.Float32bits(w) || g != g && w != w {
			continue
		}
		v.mismatch(func() string {
			at := sizeOf(d, i-i%d.BlockElems())
			return fmt.Sprintf("element %d of % x: %08x (%v), ggml %08x (%v)", i%d.BlockElems(), blocks[at:at+d.BlockBytes()],
				math.Float32bits(g), g, math.Float32bits(w), w)
		})
	}
}

// quantizations compares p's type with ours, row by row.
func (j *judge) quantizations(p, we peer) func(*verdict) {
	return func(v *verdict) {
		row := rowOf(p.d)
		rng := rand.New(rand.NewPCG(j.seed, uint64(p.d)<<8))
		floats := make([]float32, weighedBatch)
		want, got := make([]byte, sizeOf(p.d, weighedBatch)), make([]byte, sizeOf(p.d, weighedBatch))
		for v.compared < int64(j.blocks) {
			n := (min(weighedBatch, (j.blocks-int(v.compared))*row) + weightedRow - 1) / weightedRow * weightedRow
			x, want, got := floats[:n], want[:sizeOf(p.d, n)], got[:sizeOf(p.d, n)]
			fillRows(rng, x)
			if v.compared > 0 {
				weigh(rng)
			}
			p.run(x, want, 1)
			we.run(x, got, 1)
			compareRows(v, p, x, got, want)
			v.compared += int64(n / row)
		}
	}
}

func compareRows(v *verdict, p peer, x []float32, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	even := evenly(p, x)
	n := rowOf(p.d)
	size := sizeOf(p.d, n)
	for at := 0; at < len(x); at += n {
		row, g, w, e := x[at:at+n], got[at/n*size:][:size], want[at/n*size:][:size], even[at/n*size:][:size]
		switch {
		case bytes.Equal(g, w):
		case bytes.Equal(g, e) && (!scaled(p.d, w) || !usable(importance[at%weightedRow:][:n], row)):
			v.even++
		case undefined(p.d, row):
			v.undefined++
		default:
			v.mismatch(func() string { return fmt.Sprintf("%v: % x, ggml % x", row, g, w) })
		}
	}
}

// evenly returns what p makes of rows whose elements are all as important.
func evenly(p peer, x []float32) []byte {
	was, b := slices.Clone(importance), make([]byte, sizeOf(p.d, len(x)))
	for i := range importance {
		importance[i] = 1
	}
	p.run(x, b, 1)
	copy(importance, was)
	return b
}

// scaled reports whether a block has scales that are finite, and not all zero.
func scaled(d layout.DType, block []byte) bool {
	some := false
	for _, at := range kerneltest.Halves[d] {
		h := binary.LittleEndian.Uint16(block[at:]) &^ 0x8000
		if h >= 0x7c00 {
			return false
		}
		some = some || h != 0
	}
	return some
}

// usable reports whether some element is important by a number whose sums nobody doubts.
func usable(importance, x []float32) bool {
	within := func(f float32, low, high float64) bool {
		return math.Abs(float64(f)) >= low && math.Abs(float64(f)) <= high
	}
	some := false
	for i, f := range x {
		if !within(f, 0, 0x1p16) || !within(importance[i], 0, 0x1p60) {
			return false
		}
		some = some || within(importance[i], 0x1p-60, 0x1p60) && within(f, 0x1p-24, 0x1p16)
	}
	return some
}

// undefined reports whether ggml's quantizer for d converts a number to an integer that cannot hold
// it. The scale of such a row is too small for a finite reciprocal, or its range too wide for a
// finite scale.
func undefined(d layout.DType, row []float32) bool {
	lo, hi := row[0], row[0]
	for _, f := range row {
		lo, hi = min(lo, f), max(hi, f)
	}
	step := map[layout.DType]float32{
		layout.Q8_0: max(hi, -lo) / 127, layout.Q4_0: max(hi, -lo) / 8, layout.Q5_0: max(hi, -lo) / 16,
		layout.Q4_1: (hi - lo) / 15, layout.Q5_1: (hi - lo) / 31,
	}[d]
	return step != 0 && math.IsInf(float64(1/step), 0) || math.IsInf(float64(step), 0)
}
