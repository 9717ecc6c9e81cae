package april

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// checkIndex makes sure of what an Index promises by comparing everything with
// everything, without a line of layout's checks.
func checkIndex(t testing.TB, f *File, data []byte) {
	t.Helper()
	type span struct {
		off, end uint64
		what     string
	}
	var spans []span
	for _, s := range f.Index().Sections {
		spans = append(spans, span{s.Offset, s.Offset + s.Size, s.Name})
	}
	names := map[string]bool{}
	for i, x := range f.Index().Tensors {
		name := string(x.Name)
		if names[name] || f.Index().Find(name) != i {
			t.Errorf("tensor %d: %q is not found, or another has its name", i, name)
		}
		names[name] = true
		n := uint64(x.DType.BlockBytes())
		for _, d := range x.Shape {
			n *= d
		}
		if n != x.Raw || x.Encoding == layout.Raw && x.Stored != x.Raw || x.Encoding == layout.Protobuf && x.Raw > 8*x.Stored {
			t.Errorf("%s: %+v", name, x)
		}
		home := span{x.Offset, x.Offset + x.Stored, name}
		if !x.Alias {
			spans = append(spans, home)
			continue
		}
		role, _, _ := strings.Cut(name, "/")
		if at := f.Index().Find("networks/" + role); at < 0 {
			t.Errorf("%s: no such network", name)
		} else if n := f.Index().Tensors[at]; home.off > home.end || home.off < n.Offset || home.end > n.Offset+n.Stored {
			t.Errorf("%s: %v is not in %+v", name, home, n)
		}
	}
	spans = slices.DeleteFunc(spans, func(s span) bool { return s.off == s.end })
	for i, x := range spans {
		if x.off > x.end || x.end > uint64(len(data)) {
			t.Errorf("%s: [%d, %d) of %d", x.what, x.off, x.end, len(data))
		}
		for _, y := range spans[:i] {
			if x.off < y.end && y.off < x.end {
				t.Errorf("%s and %s overlap: %v, %v", x.what, y.what, x, y)
			}
		}
	}
}

// decodeAny decodes what may be damaged: it must be right or refused in good form, and
// whatever can be asked of it must answer.
func decodeAny(t testing.TB, data layout.Bytes) *File {
	t.Helper()
	f, err := Decode(data, nil)
	if err != nil {
		checkForm(t, err)
		if f != nil {
			t.Errorf("%v and %v", f, err)
		}
		return nil
	}
	checkIndex(t, f, data)
	f.Audit(data)
	for _, ask := range []func() error{
		func() error { _, err := f.Metadata(data); return err },
		func() error { _, err := f.Summary(data); return err },
		func() error { _, err := f.Checksums(data); return err },
		func() error { return unpackAll(f, data) },
	} {
		if err := ask(); err != nil {
			checkForm(t, err)
		}
	}
	return f
}

// checkForm wants errors to say what they must.
func checkForm(t testing.TB, err error) {
	t.Helper()
	var fe *layout.FormatError
	if !errors.As(err, &fe) || fe.Format != layout.April || fe.Field == "" || fe.Reason == "" || fe.Err == nil {
		t.Errorf("an error in bad form: %v", err)
	}
}

func unpackAll(f *File, data layout.Bytes) error {
	for i := range f.Index().Tensors {
		if _, err := elementsOf(f, data, &f.Index().Tensors[i]); err != nil {
			return err
		}
	}
	return nil
}

func TestTruncated(t *testing.T) {
	for _, name := range []string{"streaming", "wire", "odd"} {
		data := fixture(t, name)
		end := len(data)
		if name == "odd" {
			end -= len("tail") // without which the file is whole
		}
		for n := range end {
			if f := decodeAny(t, data[:n:n]); f != nil {
				t.Errorf("%s: the first %d of %d bytes open", name, n, len(data))
			}
		}
	}
}

// TestCorrupted gives every byte of some files other values.
func TestCorrupted(t *testing.T) {
	for _, name := range []string{"streaming", "wire"} {
		data := slices.Clone(fixture(t, name))
		for at := range data {
			for _, v := range []byte{0x01, 0x80, 0xff} {
				data[at] ^= v
				decodeAny(t, data)
				data[at] ^= v
			}
		}
	}
}

// TestExtremes sets every eight bytes of the header, and every four, to values that
// arithmetic trips over.
func TestExtremes(t *testing.T) {
	whole := fixture(t, "wire")
	end := int(mustDecode(t, whole).Header.end)
	for at := range end {
		for _, v := range []uint64{0, 1, 1<<31 - 1, 1<<32 - 1, 1 << 63, 1<<64 - 1, uint64(len(whole)), uint64(len(whole)) - 1} {
			data := slices.Clone(whole)
			le.PutUint64(data[at:], v)
			decodeAny(t, data)
			copy(data, whole)
			le.PutUint32(data[at:], uint32(v))
			decodeAny(t, data)
		}
	}
}

// TestDeepGroups makes sure that nesting is neither recursion nor unbounded.
func TestDeepGroups(t *testing.T) {
	nested := func(n int) []byte {
		return append(bytes.Repeat([]byte{50<<3&0x7f | 3 | 0x80, 50 >> 4}, n), bytes.Repeat([]byte{50<<3&0x7f | 4 | 0x80, 50 >> 4}, n)...)
	}
	a := rawTensor("a", 2, []byte{1}, 1)
	if f := mustDecode(t, good(onnx(append(nested(64), a...))).assemble()); len(f.Index().Tensors) != 4 {
		t.Errorf("%d tensors behind 64 groups", len(f.Index().Tensors))
	}
	m := good(onnx(append(nested(65), a...)))
	_, err := Decode(m.assemble(), nil)
	checkError(t, err, layout.ErrLimit, "graph", uint64(m.network(0)+2+3+3+2*64), "deeper than 64")
	decodeAny(t, good(onnx(nested(500_000))).assemble())
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestBoundedAllocation makes sure that no field, whatever it says, makes anything
// allocate more than a few times the file.
func TestBoundedAllocation(t *testing.T) {
	const perByte, fixed = 12, 32 << 10
	data := slices.Clone(fixture(t, "wire"))
	most := uint64(0)
	for at := range data {
		for _, v := range []byte{0x00, 0x01, 0x40, 0x7f, 0x80, 0xff} {
			old := data[at]
			data[at] = v
			most = max(most, allocated(func() {
				if f, err := Decode(data, nil); err == nil {
					f.Metadata(data)
				}
			}))
			data[at] = old
		}
	}
	if limit := uint64(perByte*len(data) + fixed); most > limit {
		t.Errorf("a file of %d bytes made Decode and Metadata allocate %d, more than %d", len(data), most, limit)
	}
	t.Logf("at most %d bytes for a file of %d", most, len(data))
}

// TestAllocationOfSmallest is the same for tensors, dimensions and tokens that take as few
// bytes of a file as can be.
func TestAllocationOfSmallest(t *testing.T) {
	dims := make([][]byte, 2000)
	for i := range dims {
		dims[i] = rawTensor(string(rune('A'+i)), 2, nil, make([]int64, 64)...)
	}
	for _, tc := range []struct {
		name    string
		data    layout.Bytes
		perByte uint64
	}{
		{"tensors", smallest(20_000), 32},
		{"dims", good(onnx(dims...)).assemble(), 24},
	} {
		got := allocated(func() { mustDecode(t, tc.data) })
		if limit := tc.perByte * uint64(len(tc.data)); got > limit {
			t.Errorf("%s: a file of %d bytes made Decode allocate %d, more than %d", tc.name, len(tc.data), got, limit)
		}
		t.Logf("%s: %d bytes for a file of %d", tc.name, got, len(tc.data))
	}
	m := good()
	m.params = goodParams(make([]string, 16_383)...)
	data := m.assemble()
	f := mustDecode(t, data)
	got := allocated(func() {
		if _, err := f.Metadata(data); err != nil {
			t.Error(err)
		}
	})
	if limit := 16 * uint64(len(data)); got > limit {
		t.Errorf("tokens: a file of %d bytes made Metadata allocate %d, more than %d", len(data), got, limit)
	}
}

// recorder is an Input that notes what is read.
type recorder struct {
	layout.Bytes
	reads int
	bytes uint64
}

func (r *recorder) Slice(off, n uint64) ([]byte, error) {
	r.reads++
	r.bytes += n
	return r.Bytes.Slice(off, n)
}

// TestReads makes sure that opening steps over the elements, the parameters and the texts.
func TestReads(t *testing.T) {
	const tensors, size = 40, 256 << 10
	big := make([][]byte, tensors)
	for i := range big {
		big[i] = rawTensor(string(rune('A'+i)), 1, make([]byte, size), size/4)
	}
	m := good(onnx(big...))
	m.params = goodParams(strings.Repeat("t", 1<<20))
	in := &recorder{Bytes: m.assemble()}
	f := mustDecode(t, in)
	// A window of 4 KiB behind each tensor, and a few for the headers.
	if in.reads > tensors+12 || in.bytes > (tensors+12)*4<<10 {
		t.Errorf("opening a file of %d bytes read %d bytes in %d reads", len(in.Bytes), in.bytes, in.reads)
	}
	t.Logf("opening a file of %d bytes read %d bytes in %d reads", len(in.Bytes), in.bytes, in.reads)
	in.bytes = 0
	f.Audit(in)
	if in.bytes > 3<<20 {
		t.Errorf("Audit read %d bytes, though no tensor is stored as numbers", in.bytes)
	}
}

// failing cannot be read from some offset on.
type failing struct {
	layout.Bytes
	from uint64
}

var errDisk = errors.New("disk on fire")

func (f failing) Slice(off, n uint64) ([]byte, error) {
	if off+n > f.from {
		return nil, errDisk
	}
	return f.Bytes.Slice(off, n)
}

// TestUnreadable makes sure that what cannot be read is an error, and not a network that
// is no ONNX model, wherever it happens.
func TestUnreadable(t *testing.T) {
	data, _ := transducer(4, 8<<10) // more than is read at a time, wherever that starts
	failed := 0
	for from := uint64(0); from < uint64(len(data)); from += 509 {
		f, err := Decode(failing{data, from}, nil)
		if err != nil {
			if failed++; !errors.Is(err, errDisk) {
				t.Errorf("from %d on: %v", from, err)
			}
			checkForm(t, err)
			continue
		}
		for _, n := range f.Networks {
			if n.Err != nil {
				t.Errorf("from %d on: %s: %v", from, n.Role, n.Err)
			}
		}
	}
	if failed < 50 {
		t.Errorf("only %d of the files could not be read", failed)
	}
}

// TestUnreadableNumbers makes sure of the same for Unpack.
func TestUnreadableNumbers(t *testing.T) {
	data := good(onnx(numberTensor("a", 7, 7, make([]int64, 9000), 9000))).assemble()
	f := mustDecode(t, data)
	x := &f.Index().Tensors[3]
	err := f.Unpack(failing{data, x.Offset + 5000}, x, make([]byte, x.Raw))
	if !errors.Is(err, errDisk) {
		t.Error(err)
	}
	err = f.Unpack(data[:x.Offset+5000], x, make([]byte, x.Raw))
	checkError(t, err, layout.ErrTruncated, "initializer", x.Offset, "leave the file")
}
