package tsm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// decodeAll asks a file, which may be damaged, for all there is, and fails the test where an
// answer is not so. It is nil where the file is refused.
func decodeAll(t testing.TB, data layout.Bytes) *File {
	t.Helper()
	f, err := Decode(data, nil)
	if err != nil {
		e, ok := errors.AsType[*layout.FormatError](err)
		if !ok || f != nil || e.Format != layout.TSM || e.Offset > uint64(len(data)) || e.Field == "" || e.Reason == "" || e.Err == nil {
			t.Fatalf("%.300q: %#v", data, err)
		}
		return nil
	}
	checkIndex(t, f, data)
	checkGraph(t, f, data)
	md, err := f.Metadata(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(md); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Summary(data); err != nil {
		t.Fatal(err)
	}
	for _, finding := range f.Audit(data) {
		if !finding.Warning || finding.Offset > uint64(len(data)) {
			t.Fatal(finding)
		}
	}
	return f
}

// checkIndex makes sure of what an Index promises, without a line of layout's checks.
func checkIndex(t testing.TB, f *File, data []byte) {
	t.Helper()
	end := uint64(headerSize)
	names := map[string]bool{}
	ix := f.Index()
	for i, x := range ix.Tensors {
		if names[string(x.Name)] || ix.Find(string(x.Name)) != i {
			t.Fatalf("tensor %d: %q is not found, or another has its name", i, x.Name)
		}
		names[string(x.Name)] = true
		// A tensor's memory comes behind its description, and that behind the last tensor.
		head := uint64(5 + 4*len(x.Shape))
		if x.Offset < end+head || x.Offset > uint64(len(data)) || x.Stored > uint64(len(data))-x.Offset {
			t.Fatalf("tensor %d: %d bytes at %d", i, x.Stored, x.Offset)
		}
		end = x.Offset + x.Stored
		if dims := data[x.Offset-head+1:]; int(binary.LittleEndian.Uint32(dims)) != len(x.Shape) {
			t.Fatalf("tensor %d: rank %d", i, len(x.Shape))
		}
		size := uint64(x.DType.BlockBytes())
		for k, d := range x.Shape {
			size *= d
			if v := binary.LittleEndian.Uint32(data[x.Offset-head+5+4*uint64(k):]); uint64(v) != d || d > math.MaxInt32 {
				t.Fatalf("tensor %d: dimension %d is %d", i, k, d)
			}
		}
		if size != x.Stored || x.Raw != size || x.Encoding != layout.Raw {
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

func good(t testing.TB) []string {
	return slices.DeleteFunc(fixtureNames(t), func(name string) bool { return strings.HasPrefix(name, "bad-") })
}

func TestTruncated(t *testing.T) {
	for _, name := range good(t) {
		data := fixture(t, name)
		for n := range data {
			if f := decodeAll(t, data[:n:n]); f != nil && name != "trailing" {
				t.Errorf("%s: %d of %d bytes are a module", name, n, len(data))
			}
		}
	}
}

// TestFields gives every four bytes that could be a count, size or index all the values that
// hurt.
func TestFields(t *testing.T) {
	values := []uint32{0, 1, 2, 0x7f, 1 << 16, math.MaxInt32, 1 << 31, math.MaxUint32, math.MaxUint32 - 1}
	for _, name := range []string{"tennis-packed", "positions", "bad-cycle-3"} {
		data := slices.Clone(fixture(t, name))
		for at := 0; at+4 <= len(data); at++ {
			was := binary.LittleEndian.Uint32(data[at:])
			for _, v := range values {
				binary.LittleEndian.PutUint32(data[at:], v)
				decodeAll(t, data)
			}
			binary.LittleEndian.PutUint32(data[at:], was)
		}
	}
}

// TestBytes changes every byte behind the header.
func TestBytes(t *testing.T) {
	for _, name := range []string{"tennis-packed", "positions", "bad-cycle-2"} {
		data := slices.Clone(fixture(t, name))
		for at := headerSize; at < len(data); at++ {
			was := data[at]
			for _, v := range []byte{0, 1, 2, '/', 0x7f, 0x80, 0xff, was ^ 1, was ^ 4, was ^ 0x20} {
				data[at] = v
				decodeAll(t, data)
			}
			data[at] = was
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
			cost := allocated(func() { _, err = Decode(in, nil) })
			t.Logf("%.1f bytes for each of %d, %v", float64(cost)/float64(len(in)), len(in), err)
			if cost > c.perByte*uint64(len(in)) {
				t.Errorf("more than %d", c.perByte)
			}
			if e, ok := errors.AsType[*layout.FormatError](err); ok != (c.refused != "") || ok && e.Field != c.refused {
				t.Errorf("error is %v, want one about %q", err, c.refused)
			}
		})
	}
}

// allocated is the number of bytes of heap that f takes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// remote is an Input that counts what is asked for, and fails behind its first bytes.
type remote struct {
	layout.Bytes
	reads, bytes, fail uint64
}

var errDisk = errors.New("disk on fire")

func (r *remote) Slice(off, n uint64) ([]byte, error) {
	r.reads++
	r.bytes += n
	if off+n > r.fail {
		return nil, errDisk
	}
	return slices.Clone(r.Bytes[off : off+n]), nil
}

// Tensors are stepped over and not read.
func TestReads(t *testing.T) {
	b := network(16, 128)
	in := &remote{Bytes: b.b, fail: uint64(len(b.b))}
	f := mustDecode(t, in)
	checkIndex(t, f, b.b)
	index := uint64(len(b.b) - b.memory)
	if in.bytes > index+32*8192 || in.reads > 100 {
		t.Errorf("%d reads of %d bytes, but the index has %d of %d", in.reads, in.bytes, index, len(b.b))
	}
	if _, err := f.Checksums(in); err != nil {
		t.Error(err)
	}
}

func TestUnreadable(t *testing.T) {
	b := network(16, 1)
	in := &remote{Bytes: b.b, fail: math.MaxUint64}
	f := mustDecode(t, in)
	in.fail = 6000
	if _, err := Decode(in, nil); !errors.Is(err, errDisk) {
		t.Error(err)
	}
	if found := f.Audit(in); len(found) != 1 || !errors.Is(found[0].Err, errDisk) || found[0].Warning {
		t.Errorf("findings %v", found)
	}
	for name, ask := range map[string]func() error{
		"Metadata": func() error { _, err := f.Metadata(in); return err },
		"Summary":  func() error { _, err := f.Summary(in); return err },
		"Graph":    func() error { _, err := f.Graph(in); return err },
	} {
		if err := ask(); !errors.Is(err, errDisk) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
