package layout_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

const maxUint64 = math.MaxUint64

// spans of a file of 10 bytes.
var spans = []struct {
	off, n uint64
	ok     bool
}{
	{0, 0, true}, {0, 10, true}, {10, 0, true}, {3, 7, true}, {9, 1, true},
	{0, 11, false}, {11, 0, false}, {10, 1, false}, {3, 8, false},
	{maxUint64, 0, false}, {0, maxUint64, false}, {maxUint64, 1, false}, {1, maxUint64, false},
	{maxUint64, maxUint64, false},
	{5, maxUint64 - 4, false}, {maxUint64 - 4, 5, false}, // the sum is 0
	{1 << 63, 1 << 63, false},
}

func TestWithin(t *testing.T) {
	for _, s := range spans {
		if got := layout.Within(s.off, s.n, 10); got != s.ok {
			t.Errorf("Within(%d, %d, 10) = %t", s.off, s.n, got)
		}
	}
	for _, s := range []struct {
		off, n, size uint64
		ok           bool
	}{
		{0, 0, 0, true}, {0, 1, 0, false}, {1, 0, 0, false},
		{0, maxUint64, maxUint64, true}, {maxUint64, 0, maxUint64, true}, {maxUint64, 1, maxUint64, false},
		{1, maxUint64, maxUint64, false}, {1, maxUint64 - 1, maxUint64, true},
	} {
		if got := layout.Within(s.off, s.n, s.size); got != s.ok {
			t.Errorf("Within(%d, %d, %d) = %t", s.off, s.n, s.size, got)
		}
	}
}

func TestBytes(t *testing.T) {
	data := []byte("0123456789")
	in := layout.Bytes(data)
	if in.Size() != 10 {
		t.Errorf("Size is %d", in.Size())
	}
	for _, s := range spans {
		got, err := in.Slice(s.off, s.n)
		if !s.ok {
			if got != nil || !errors.Is(err, layout.ErrTruncated) {
				t.Errorf("Slice(%d, %d) = %q, %v", s.off, s.n, got, err)
			}
			continue
		}
		if err != nil || !bytes.Equal(got, data[s.off:s.off+s.n]) || uint64(cap(got)) != s.n {
			t.Errorf("Slice(%d, %d) = %q with capacity %d, %v", s.off, s.n, got, cap(got), err)
		}
		_ = append(got, '!')
	}
	if string(data) != "0123456789" {
		t.Errorf("appending to slices wrote into the input: %s", data)
	}
	if got, _ := in.Slice(2, 3); &got[0] != &data[2] {
		t.Error("Slice copies")
	}
	if got, err := layout.Bytes(nil).Slice(0, 0); len(got) != 0 || err != nil {
		t.Errorf("nothing of an empty file is %q, %v", got, err)
	}
}

func TestRegion(t *testing.T) {
	in := layout.Bytes("0123456789")
	for _, s := range spans {
		got, err := layout.Region(in, layout.TSM, 77, "memory", s.off, s.n)
		if s.ok {
			if err != nil || uint64(len(got)) != s.n {
				t.Errorf("Region(%d, %d) = %q, %v", s.off, s.n, got, err)
			}
			continue
		}
		layouttest.WantError(t, err, layout.TSM, 77, "memory", layout.ErrTruncated, "leave the file of 10 bytes")
	}
}

// failing is an input whose every read fails, as that of a mapping that shrank.
type failing struct {
	size uint64
	err  error
}

func (f failing) Size() uint64                        { return f.size }
func (f failing) Slice(off, n uint64) ([]byte, error) { return nil, f.err }

func TestRegionUnreadable(t *testing.T) {
	broken := errors.New("broken disk")
	_, err := layout.Region(failing{10, broken}, layout.TSM, 77, "memory", 4, 2)
	layouttest.WantError(t, err, layout.TSM, 4, "memory", broken, "cannot be read")
}

func TestLimitsWithDefaults(t *testing.T) {
	want := layout.Limits{HeaderBytes: 100_000_000, Tensors: 16_777_216, NameBytes: 65_535, Rank: 64, Depth: 64, Argon2KiB: 262_144}
	if got := (*layout.Limits)(nil).WithDefaults(); got != want {
		t.Errorf("of nil: %+v, want %+v", got, want)
	}
	if got := new(layout.Limits).WithDefaults(); got != want {
		t.Errorf("of none: %+v, want %+v", got, want)
	}
	all := layout.Limits{HeaderBytes: 1, Tensors: 2, NameBytes: 3, Rank: 4, Depth: 5, Argon2KiB: 6}
	if got := all.WithDefaults(); got != all {
		t.Errorf("of %+v: %+v", all, got)
	}
	some := layout.Limits{Rank: 4, HeaderBytes: maxUint64}
	want.Rank, want.HeaderBytes = 4, maxUint64
	if got := some.WithDefaults(); got != want {
		t.Errorf("of some: %+v, want %+v", got, want)
	}
	if (some != layout.Limits{Rank: 4, HeaderBytes: maxUint64}) {
		t.Errorf("the receiver became %+v", some)
	}
}
