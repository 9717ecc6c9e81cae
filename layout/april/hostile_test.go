package april

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// checkPromises: initializers lie in their network.
func checkPromises(t testing.TB, f *File, _ layout.Bytes, _ *layouttest.Answers) {
	t.Helper()
	for _, x := range f.Index().Tensors {
		if !x.Alias {
			continue
		}
		role, _, _ := strings.Cut(string(x.Name), "/")
		if at := f.Index().Find("networks/" + role); at < 0 {
			t.Errorf("%s: no such network", x.Name)
		} else if n := f.Index().Tensors[at]; x.Offset < n.Offset || x.Offset+x.Stored > n.Offset+n.Stored {
			t.Errorf("%s: %+v is not in %+v", x.Name, x, n)
		}
	}
}

func TestTruncated(t *testing.T) {
	for _, name := range []string{"streaming", "wire", "odd"} {
		data := format.Read(t, name)
		end := len(data)
		if name == "odd" {
			end -= len("tail") // without which the file is whole
		}
		for n, cut := range layouttest.Prefixes(data) {
			if f := format.Use(t, cut); f != nil && n < end {
				t.Errorf("%s: the first %d of %d bytes open", name, n, len(data))
			}
		}
	}
}

// TestCorrupted gives every byte of some files other values.
func TestCorrupted(t *testing.T) {
	for _, name := range []string{"streaming", "wire"} {
		for _, damaged := range layouttest.Flipped(format.Read(t, name), 0x01, 0x80, 0xff) {
			format.Use(t, damaged)
		}
	}
}

// TestExtremes sets every eight bytes of the header, and every four, to values that
// arithmetic trips over.
func TestExtremes(t *testing.T) {
	data := format.Read(t, "wire")
	end := int(format.MustDecode(t, data).Header.end)
	for _, width := range []int{4, 8} {
		values := append(layouttest.Extremes(width), data.Size(), data.Size()-1)
		for at, damaged := range layouttest.Overwritten(data, width, values...) {
			if at >= end {
				break
			}
			format.Use(t, damaged)
		}
	}
}

// TestDeepGroups makes sure that nesting is neither recursion nor unbounded.
func TestDeepGroups(t *testing.T) {
	nested := func(n int) []byte {
		return append(bytes.Repeat([]byte{50<<3&0x7f | 3 | 0x80, 50 >> 4}, n), bytes.Repeat([]byte{50<<3&0x7f | 4 | 0x80, 50 >> 4}, n)...)
	}
	a := rawTensor("a", 2, []byte{1}, 1)
	if f := format.MustDecode(t, good(onnx(append(nested(64), a...))).assemble()); len(f.Index().Tensors) != 4 {
		t.Errorf("%d tensors behind 64 groups", len(f.Index().Tensors))
	}
	m := good(onnx(append(nested(65), a...)))
	_, err := Decode(m.assemble(), nil)
	format.CheckError(t, err, layout.ErrLimit, "graph", uint64(m.network(0)+2+3+3+2*64), "deeper than 64")
	format.Use(t, good(onnx(nested(500_000))).assemble())
}

// TestBoundedAllocation makes sure that no field, whatever it says, makes anything
// allocate more than a few times the file.
func TestBoundedAllocation(t *testing.T) {
	bound := layouttest.Bound{PerByte: 12, Fixed: 32 << 10}
	for _, damaged := range layouttest.Overwritten(format.Read(t, "wire"), 1, 0x00, 0x01, 0x40, 0x7f, 0x80, 0xff) {
		bound.Check(t, "Decode and Metadata", len(damaged), func() {
			if f, err := Decode(damaged, nil); err == nil {
				f.Metadata(damaged)
			}
		})
	}
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
		{"tensors", smallest(20_000), 48}, // of 13 bytes each
		{"dims", good(onnx(dims...)).assemble(), 24},
	} {
		layouttest.Bound{PerByte: tc.perByte}.Check(t, tc.name, len(tc.data), func() { format.MustDecode(t, tc.data) })
	}
	dense := smallest(250_000) // more than are believed
	layouttest.Bound{PerByte: 8, Fixed: 64 << 20}.Check(t, "tensors that are refused", len(dense), func() {
		if _, err := Decode(dense, nil); !errors.Is(err, layout.ErrLimit) {
			t.Error(err)
		}
	})
	m := good()
	m.params = goodParams(make([]string, 16_383)...)
	data := m.assemble()
	f := format.MustDecode(t, data)
	layouttest.Bound{PerByte: 16}.Check(t, "tokens", len(data), func() {
		if _, err := f.Metadata(data); err != nil {
			t.Error(err)
		}
	})
}

// TestAllocationOfAudit makes sure that looking at the numbers of a tensor costs nothing: there
// can be one for every 10 bytes of a file.
func TestAllocationOfAudit(t *testing.T) {
	tensors := make([][]byte, 20_000)
	for i := range tensors {
		tensors[i] = numberTensor(fmt.Sprintf("%x", i), 6, 5, []int64{1}, 1)
	}
	data := good(onnx(tensors...)).assemble()
	f := format.MustDecode(t, data)
	layouttest.Bound{PerByte: 4}.Check(t, "Audit", len(data), func() {
		if found := f.Audit(data); len(found) > 0 {
			t.Error(found)
		}
	})
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
	in := &layouttest.Recorder{Input: m.assemble()}
	f := format.MustDecode(t, in)
	// A window of 4 KiB behind each tensor, and a few for the headers.
	if len(in.Reads) > tensors+12 || in.Total() > (tensors+12)*4<<10 {
		t.Errorf("opening a file of %d bytes read %d bytes in %d reads", in.Size(), in.Total(), len(in.Reads))
	}
	in.Reads = nil
	f.Audit(in)
	if in.Total() > 3<<20 {
		t.Errorf("Audit read %d bytes, though no tensor is stored as numbers", in.Total())
	}
}

// TestUnreadable makes sure that what cannot be read is an error, and not a network that
// is no ONNX model, wherever it happens.
func TestUnreadable(t *testing.T) {
	data, _ := transducer(4, 8<<10) // more than is read at a time, wherever that starts
	failed := 0
	for from := uint64(0); from < uint64(len(data)); from += 509 {
		f, err := Decode(layouttest.Failing{Bytes: data, From: from}, nil)
		if err != nil {
			if failed++; !errors.Is(err, iofault.ErrDisk) {
				t.Errorf("from %d on: %v", from, err)
			}
			format.WellFormed(t, data, err)
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
	f := format.MustDecode(t, data)
	x := &f.Index().Tensors[3]
	err := f.Unpack(layouttest.Failing{Bytes: data, From: x.Offset + 5000}, x, make([]byte, x.Raw))
	if !errors.Is(err, iofault.ErrDisk) {
		t.Error(err)
	}
	err = f.Unpack(data[:x.Offset+5000], x, make([]byte, x.Raw))
	format.CheckError(t, err, layout.ErrTruncated, "initializer", x.Offset, "leave the file")
}
