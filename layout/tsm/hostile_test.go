package tsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// checkPromises: whatever was accepted can be described, and has nothing but oddities. Tensors
// lie one behind the other, each behind its description, and each belongs to a node.
func checkPromises(t testing.TB, f *File, data layout.Bytes, got *layouttest.Answers) {
	t.Helper()
	if got.MetadataErr != nil || got.Failed() || got.Checksums != nil {
		t.Errorf("metadata: %v; findings %v, checksums %v", got.MetadataErr, got.Findings, got.Checksums)
	}
	if _, err := f.Summary(data); err != nil {
		t.Error(err)
	}
	checkDescriptions(t, f.Index(), data)
	checkGraph(t, f, data)
}

func checkDescriptions(t testing.TB, ix *layout.Index, data []byte) {
	t.Helper()
	end := uint64(headerSize)
	for i, x := range ix.Tensors {
		head := uint64(5 + 4*len(x.Shape))
		if x.Offset < end+head {
			t.Fatalf("tensor %d: %d bytes at %d", i, x.Stored, x.Offset)
		}
		end = x.Offset + x.Stored
		if dims := data[x.Offset-head+1:]; int(binary.LittleEndian.Uint32(dims)) != len(x.Shape) {
			t.Fatalf("tensor %d: rank %d", i, len(x.Shape))
		}
		for k, d := range x.Shape {
			if v := binary.LittleEndian.Uint32(data[x.Offset-head+5+4*uint64(k):]); int(v) != d || d > math.MaxInt32 {
				t.Fatalf("tensor %d: dimension %d is %d", i, k, d)
			}
		}
		if x.Encoding != layout.Raw || x.Alias {
			t.Fatalf("tensor %d: %+v", i, x)
		}
	}
}

// checkGraph makes sure that the graph has no cycle, by taking nodes away that read no
// other that is left, and that every tensor belongs to one node.
func checkGraph(t testing.TB, f *File, data layout.Bytes) {
	t.Helper()
	g, err := f.Graph(data)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	readers, left := make([][]int, len(g.Nodes)), make([]int, len(g.Nodes))
	var free []int
	for i, n := range g.Nodes {
		names = append(names, n.Tensors...)
		for _, in := range n.Inputs {
			readers[in] = append(readers[in], i)
		}
		if left[i] = len(n.Inputs); left[i] == 0 {
			free = append(free, i)
		}
	}
	taken := 0
	for ; taken < len(free); taken++ {
		for _, r := range readers[free[taken]] {
			if left[r]--; left[r] == 0 {
				free = append(free, r)
			}
		}
	}
	if taken != len(g.Nodes) {
		t.Fatalf("%d of %d nodes are on a cycle or behind one", len(g.Nodes)-taken, len(g.Nodes))
	}
	for i, x := range f.Index().Tensors {
		if i >= len(names) || string(x.Name) != names[i] {
			t.Fatalf("the graph has tensors %q", names)
		}
	}
	for _, i := range slices.Concat(g.Inputs, g.Outputs) {
		if g.Nodes[i].Inputs == nil {
			t.Fatal("inputs are nil")
		}
	}
}

func TestTruncated(t *testing.T) {
	for _, x := range format.Fixtures(t) {
		if x.Want.Error != nil {
			continue
		}
		for n, cut := range layouttest.Prefixes(x.Data) {
			if f := format.Use(t, cut); f != nil && x.Name != "trailing" {
				t.Errorf("%s: %d of %d bytes are a module", x.Name, n, len(x.Data))
			}
		}
	}
}

// TestFields gives every four bytes that could be a count, size or index all the values that
// hurt.
func TestFields(t *testing.T) {
	values := append(layouttest.Extremes(4), 2, 0x7f, 1<<16, math.MaxUint32-1)
	for _, name := range []string{"tennis-packed", "positions", "bad-cycle-3"} {
		for _, damaged := range layouttest.Overwritten(format.Read(t, name), 4, values...) {
			format.Use(t, damaged)
		}
	}
}

// TestBytes changes every byte.
func TestBytes(t *testing.T) {
	for _, name := range []string{"tennis-packed", "positions", "bad-cycle-2"} {
		for _, damaged := range layouttest.Overwritten(format.Read(t, name), 1, 0, 1, 2, '/', 0x7f, 0x80, 0xff) {
			format.Use(t, damaged)
		}
		for _, damaged := range layouttest.Flipped(format.Read(t, name), 1, 4, 0x20) {
			format.Use(t, damaged)
		}
	}
}

// TestAllocations gives the decoder modules made to cost memory. None may cost more than a
// small multiple of its size: what is smallest, a tensor of 5 bytes, needs a descriptor of
// some 100 and its place in the table of names.
func TestAllocations(t *testing.T) {
	const size = 1 << 18
	repeat := func(n int, b *builder, each func(i int)) *builder {
		for i := range n {
			each(i)
		}
		return b
	}
	scalars := func(n int, b *builder) *builder {
		return repeat(n, b.param("p", n), func(int) { b.tensor(0, 0) })
	}
	for _, c := range []struct {
		name    string
		refused string // field of the error, if there is one
		perByte uint64
		file    func() *builder
	}{
		{"tensors", "", 64, func() *builder {
			return scalars(size/5, build(1).i32(1)).inputs()
		}},
		{"tensors of a long name", "", 64, func() *builder {
			return scalars(size/5, build(1).node(strings.Repeat("n", 60_000), "", 1)).inputs()
		}},
		{"tensors of the same name", "", 96, func() *builder { // which is seen at the end
			return scalars(size/5, build(2).node("a", "", 1)).inputs().node("a/p", "", 1).param("1", 1).tensor(0, 0).inputs()
		}},
		{"dimensions", "", 24, func() *builder {
			const rank = 64
			b := build(1).i32(1).param("", size/4/rank)
			return repeat(size/4/rank, b, func(int) { b.tensor(1, 1, slices.Repeat([]int{1}, rank)...) }).inputs()
		}},
		{"nodes", "", 40, func() *builder { return build(size / 8).i32(make([]int, size/4)...) }},
		{"edges", "", 8, func() *builder {
			return build(2).i32(0).inputs(slices.Repeat([]int{1}, size/4)...).i32(0, 0)
		}},
		{"edges in no order", "", 8, func() *builder {
			return build(3).i32(0).inputs(1).i32(0, 0).i32(0).inputs(slices.Repeat([]int{1}, size/4)...)
		}},
		{"deep cycle", "inputs", 40, func() *builder { return ring(size / 12) }},
		{"params", "", 32, func() *builder {
			const n = size / 12
			b := build(1).i32(n)
			return repeat(n, b, func(i int) { b.param(fmt.Sprintf("%04x", i), 0) }).inputs()
		}},
		{"count of nodes", "bubble", 24, func() *builder { return build(size / 8).i32(-1).i32(make([]int, size/4)...) }},
		{"count of params", "name", 24, func() *builder { return build(1).i32(size / 8).i32(make([]int, size/4)...) }},
		{"network", "", 8, func() *builder { return network(1024, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := c.file().in()
			var err error
			layouttest.Bound{PerByte: c.perByte}.Check(t, "module", len(in), func() { _, err = Decode(in, nil) })
			if e, ok := errors.AsType[*layout.FormatError](err); ok != (c.refused != "") || ok && e.Field != c.refused {
				t.Errorf("error is %v, want one about %q", err, c.refused)
			}
		})
	}
}

// TestAllocationsOfNodes asks for all that can be said of the smallest nodes, of 8 bytes each.
func TestAllocationsOfNodes(t *testing.T) {
	const n = 1 << 15
	in := build(n).i32(make([]int, 2*n)...).in()
	f := format.MustDecode(t, in)
	for _, c := range []struct {
		what    string
		perByte uint64
		ask     func() error
	}{
		{"metadata", 48, func() error { _, err := f.Metadata(in); return err }},
		{"graph", 44, func() error { _, err := f.Graph(in); return err }},
		{"summary", 32, func() error { _, err := f.Summary(in); return err }},
		{"audit", 32, func() error { f.Audit(in); return nil }},
	} {
		layouttest.Bound{PerByte: c.perByte}.Check(t, c.what, len(in), func() {
			if err := c.ask(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Tensors are stepped over and not read.
func TestReads(t *testing.T) {
	b := network(16, 128)
	in := &layouttest.Recorder{Input: b.in()}
	f := format.MustDecode(t, in)
	layouttest.CheckIndex(t, f.Index(), b.b)
	checkDescriptions(t, f.Index(), b.b)
	index := uint64(len(b.b) - b.memory)
	if in.Total() > index+32*8192 || len(in.Reads) > 100 {
		t.Errorf("%d reads of %d bytes, but the index has %d of %d", len(in.Reads), in.Total(), index, len(b.b))
	}
	if _, err := f.Checksums(in); err != nil {
		t.Error(err)
	}
}

func TestUnreadable(t *testing.T) {
	b := network(16, 1)
	f := format.MustDecode(t, b.in())
	in := layouttest.Failing{Bytes: b.b, From: 6000}
	if _, err := Decode(in, nil); !errors.Is(err, iofault.ErrDisk) {
		t.Error(err)
	}
	if found := f.Audit(in); len(found) != 1 || !errors.Is(found[0].Err, iofault.ErrDisk) || found[0].Warning {
		t.Errorf("findings %v", found)
	}
	for name, ask := range map[string]func() error{
		"Metadata": func() error { _, err := f.Metadata(in); return err },
		"Summary":  func() error { _, err := f.Summary(in); return err },
		"Graph":    func() error { _, err := f.Graph(in); return err },
	} {
		if err := ask(); !errors.Is(err, iofault.ErrDisk) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWrongIndexes: the first of many wrong indexes ends the reading.
func TestWrongIndexes(t *testing.T) {
	const n = 10_000
	b := build(0)
	b.b = b.b[:headerSize]
	b.i32(n).i32(slices.Repeat([]int{-1}, n)...).i32(0, 0)
	allocs := testing.AllocsPerRun(2, func() {
		if _, err := Decode(layout.Bytes(b.b), nil); !errors.Is(err, layout.ErrInvalid) {
			t.Fatal(err)
		}
	})
	if allocs > 100 {
		t.Errorf("%v allocations", allocs)
	}
}
