package loader_test

import (
	"errors"
	"math"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// A file that was just written is in the page cache; pages that nobody has read may be made
// to go, but nothing can be made to stay, so that only the most is certain.
func TestResident(t *testing.T) {
	content := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.F32, 256, 1024))
	m := openPath(t, modeltest.Write(t, "model", content), nil)
	x := tensor(t, m, "x")
	if _, err := m.WarmAll(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	got, err := m.Resident(0, x.Offset(), x.StoredBytes())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil || got == 0 || got > x.StoredBytes() {
		t.Errorf("%d of %d bytes after Warm (%v)", got, x.StoredBytes(), err)
	}
	size := uint64(len(content))
	if got, err := m.Resident(0, size-1, 1); err != nil || got > 1 {
		t.Errorf("last byte: %d (%v)", got, err)
	}
	if got, err := m.Resident(0, size, 0); err != nil || got != 0 {
		t.Errorf("nothing: %d (%v)", got, err)
	}
	for _, bad := range []struct {
		file   int
		off, n uint64
	}{{-1, 0, 1}, {1, 0, 1}, {0, size, 1}, {0, 0, size + 1}, {0, 1, math.MaxUint64}, {0, math.MaxUint64, 1}} {
		if got, err := m.Resident(bad.file, bad.off, bad.n); got != 0 || !errors.Is(err, loader.ErrRange) {
			t.Errorf("%+v: %d, %v", bad, got, err)
		}
	}
}

func TestResidentNotMapped(t *testing.T) {
	m := openBytes(t, modeltest.APR2Model(t, nil, modeltest.Random("x", layout.F32, 4)), nil)
	if _, err := m.Resident(0, 0, 1); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("in memory: %v", err)
	}
}
