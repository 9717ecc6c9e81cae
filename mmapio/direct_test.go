package mmapio

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"testing"
)

func TestDirect(t *testing.T) {
	const size = 3*DirectAlignment + 5
	want := noise(size)
	f, err := os.Open(writeFile(t, want))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Direct(f); err != nil {
		if runtime.GOOS != "linux" && !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
		t.Skip(err) // the file system cannot
	}
	b := AlignUp(make([]byte, 6*DirectAlignment), DirectAlignment)[:4*DirectAlignment]
	if n, _ := f.ReadAt(b, 0); n != size || !bytes.Equal(b[:n], want) {
		t.Errorf("%d bytes", n)
	}
	if n, _ := f.ReadAt(b[:DirectAlignment], DirectAlignment); n != DirectAlignment || !bytes.Equal(b[:n], want[DirectAlignment:][:n]) {
		t.Errorf("%d bytes of the second page", n)
	}
}

func TestAlignUp(t *testing.T) {
	b := AlignedBytes(256)
	for _, tt := range []struct{ from, align, want int }{{0, 64, 256}, {1, 64, 192}, {64, 64, 192}, {193, 64, 0}, {3, 1, 253}, {256, 8, 0}} {
		if got := AlignUp(b[tt.from:], tt.align); len(got) != tt.want || len(got) > 0 && !IsAligned(got, tt.align) {
			t.Errorf("%+v: %d bytes", tt, len(got))
		}
	}
}

func TestOverlap(t *testing.T) {
	b := make([]byte, 100)
	for _, tt := range []struct {
		a, b []byte
		want bool
	}{
		{b, b, true}, {b[:50], b[50:], false}, {b[:51], b[50:], true}, {b[50:], b[:51], true}, {b[10:20], b, true},
		{b[10:10], b, false}, {b, nil, false}, {b, make([]byte, 100), false},
	} {
		if got := Overlap(tt.a, tt.b); got != tt.want {
			t.Errorf("%d and %d bytes: %v", len(tt.a), len(tt.b), got)
		}
	}
}

func TestPages(t *testing.T) {
	size := int(3*pageSize) + 5
	want := noise(size)
	eachMapping(t, want, func(t *testing.T, m *Mapping, _ bool) {
		for _, r := range [][2]uint64{{0, uint64(size)}, {pageSize + 1, 10}, {pageSize - 1, 2}, {uint64(size) - 1, 1}} {
			b, at, err := m.Pages(r[0], r[1])
			if !m.Mapped() {
				if !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("not mapped: %v", err)
				}
				continue
			}
			page := int(pageSize)
			if err != nil || at != pageFloor(r[0]) || len(b)%page != 0 || at+uint64(len(b)) < r[0]+r[1] || !IsAligned(b, page) {
				t.Fatalf("%v: %d bytes at %d, %v", r, len(b), at, err)
			}
			whole := append(bytes.Clone(want), make([]byte, page)...)
			if !bytes.Equal(b, whole[at:][:len(b)]) {
				t.Errorf("%v: other bytes", r)
			}
		}
		if _, _, err := m.Pages(0, uint64(size)+1); !errors.Is(err, ErrRange) {
			t.Error(err)
		}
	})
}
