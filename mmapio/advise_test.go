package mmapio

import (
	"errors"
	"testing"
)

func TestRanges(t *testing.T) {
	page := pageSize
	tests := []struct {
		name         string
		off, n, size uint64
		outLo, outHi uint64
		inLo, inHi   uint64 // equal: nothing
	}{
		{"a page", page, page, 3 * page, page, 2 * page, page, 2 * page},
		{"within a page", page + 1, 5, 3 * page, page, 2 * page, 0, 0},
		{"parts of two", page - 1, 2, 3 * page, 0, 2 * page, 0, 0},
		{"a page and parts", page - 1, page + 2, 4 * page, 0, 3 * page, page, 2 * page},
		{"the ragged end", page + 1, page + 4, 2*page + 5, page, 2*page + 5, 2 * page, 2*page + 5},
		{"just short of the end", page, page + 4, 2*page + 5, page, 2*page + 5, page, 2 * page},
		{"all of a small file", 0, 5, 5, 0, 5, 0, 5},
		{"nothing", page + 1, 0, 3 * page, page + 1, page + 1, 0, 0},
		{"nothing at the end", 2*page + 5, 0, 2*page + 5, 2*page + 5, 2*page + 5, 0, 0},
		{"nothing of nothing", 0, 0, 0, 0, 0, 0, 0},
	}
	for _, tt := range tests {
		if lo, hi := widenToPages(tt.off, tt.n, tt.size); lo != tt.outLo || hi != tt.outHi {
			t.Errorf("%s: outward %d to %d, want %d to %d", tt.name, lo, hi, tt.outLo, tt.outHi)
		}
		lo, hi := shrinkToPages(tt.off, tt.n, tt.size)
		if tt.inLo == tt.inHi {
			if lo < hi {
				t.Errorf("%s: inward %d to %d, want nothing", tt.name, lo, hi)
			}
		} else if lo != tt.inLo || hi != tt.inHi {
			t.Errorf("%s: inward %d to %d, want %d to %d", tt.name, lo, hi, tt.inLo, tt.inHi)
		}
	}
}

func TestKernelCalls(t *testing.T) {
	const size = 50_000
	eachMapping(t, noise(size), func(t *testing.T, m *Mapping, _ bool) {
		for name, f := range rangeCalls(m) {
			for _, bad := range [][2]uint64{{0, size + 1}, {size + 1, 0}, {1, ^uint64(0)}} {
				if err := f(bad[0], bad[1]); !errors.Is(err, ErrRange) {
					t.Errorf("%s(%d, %d): %v, want ErrRange", name, bad[0], bad[1], err)
				}
			}
			for _, good := range [][2]uint64{{0, 0}, {size, 0}, {100, 0}} {
				if err := f(good[0], good[1]); err != nil {
					t.Errorf("%s(%d, %d): %v", name, good[0], good[1], err)
				}
			}
			for _, good := range [][2]uint64{{0, size}, {1, 1}, {4096, 4096}, {5000, 10_000}, {size - 1, 1}} {
				err := f(good[0], good[1])
				if mayBeUnsupported(m, name) && errors.Is(err, errors.ErrUnsupported) {
					continue
				}
				if err != nil || !m.Mapped() && mayBeUnsupported(m, name) {
					t.Errorf("%s(%d, %d): %v", name, good[0], good[1], err)
				}
			}
		}
	})
}

// mayBeUnsupported names the calls that promise something only the kernel can
// keep, and those that not every kernel knows.
func mayBeUnsupported(m *Mapping, call string) bool {
	switch call {
	case "Lock", "Unlock":
		return !m.Mapped()
	case "Resident":
		return true
	case "Advise huge page":
		return m.Mapped()
	}
	return false
}

func TestAdviceString(t *testing.T) {
	for a, want := range map[Advice]string{Normal: "normal", DontNeed: "don't need", HugePage: "huge page", 77: "Advice(77)"} {
		if a.String() != want {
			t.Errorf("got %q, want %q", a, want)
		}
	}
}

func TestUnknownAdvice(t *testing.T) {
	m := must(t)(Map(writeFile(t, noise(10))))
	if err := m.Advise(77, 0, 10); m.Mapped() && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

func TestAdviceKeepsBytes(t *testing.T) {
	content := noise(50_000)
	m := must(t)(Map(writeFile(t, content)))
	for _, a := range []Advice{WillNeed, DontNeed, Random, Sequential, Normal} {
		if err := m.Advise(a, 10, 49_990); err != nil {
			t.Error(err)
		}
		if b, err := m.Slice(0, m.Size()); err != nil || string(b) != string(content) {
			t.Errorf("bytes differ after %v (error %v)", a, err)
		}
	}
}
