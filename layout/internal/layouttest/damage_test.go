package layouttest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/iofault"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// seen is a sequence in text.
func seen(seq func(yield func(int, layout.Bytes) bool)) (list []string) {
	for at, b := range seq {
		list = append(list, fmt.Sprint(at, string(b)))
	}
	return list
}

func TestDamage(t *testing.T) {
	testmode.Sequential(t) // and the sequences are shorter there
	data := layout.Bytes("abc")
	for _, tc := range []struct {
		got, want []string
	}{
		{seen(Prefixes(data)), []string{"0", "1a", "2ab"}},
		{seen(Overwritten(data, 1, 'x', 'y')), []string{"0xbc", "0ybc", "1axc", "1ayc", "2abx", "2aby"}},
		{seen(Overwritten(data, 2, 'x'+'y'<<8)), []string{"0xyc", "1axy"}},
		{seen(Overwritten(data, 4, 0)), nil},
		{seen(Flipped(data, 2)), []string{"0cbc", "1a`c", "2aba"}},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("%q, want %q", tc.got, tc.want)
		}
	}
	for range Prefixes(data) {
		break
	}
	for _, b := range Overwritten(data, 1, 'x') {
		if b[0] != 'x' {
			t.Errorf("%q", b)
		}
		break
	}
	if string(data) != "abc" {
		t.Errorf("the file itself has become %q", data)
	}
	values := map[byte]bool{}
	for _, b := range Flipped(data[:1]) {
		values[b[0]] = true
	}
	if len(values) != 255 || values['a'] {
		t.Errorf("a byte that takes every other value has %d", len(values))
	}
}

// TestExtremes: they fit their width, and the last fills it.
func TestExtremes(t *testing.T) {
	for _, width := range []int{1, 2, 4, 8} {
		all := Extremes(width)
		limit := uint64(1)<<(8*width-1)<<1 - 1
		if !slices.IsSorted(all) || all[0] != 0 || all[len(all)-1] != limit || !slices.Contains(all, limit/2) || !slices.Contains(all, limit/2+1) {
			t.Errorf("%d bytes: %x", width, all)
		}
	}
}

func TestInputs(t *testing.T) {
	r := &Recorder{Input: Failing{content, 8}}
	b, err := r.Slice(2, 3)
	if b[0] = 'x'; err != nil || content[2] != '3' {
		t.Errorf("no copy: %q, %v", content, err)
	}
	if _, err := r.Slice(6, 3); !errors.Is(err, iofault.ErrDisk) {
		t.Errorf("read: %v", err)
	}
	if want := []layout.Section{{Offset: 2, Size: 3}, {Offset: 6, Size: 3}}; !slices.Equal(r.Reads, want) || r.Total() != 6 || r.Size() != 16 {
		t.Errorf("%v, %d", r.Reads, r.Total())
	}
	s := Sparse{Head: layout.Bytes("head"), Tail: layout.Bytes("tail"), Whole: 1 << 40}
	head, err1 := s.Slice(1, 3)
	tail, err2 := s.Slice(1<<40-3, 3)
	_, err3 := s.Slice(2, 3)
	if string(head) != "ead" || string(tail) != "ail" || err1 != nil || err2 != nil || err3 == nil || s.Size() != 1<<40 {
		t.Errorf("%q, %v, %q, %v, %v", head, err1, tail, err2, err3)
	}
}

var sink []byte

func TestBound(t *testing.T) {
	take := func() { sink = bytes.Repeat([]byte{1}, 1<<20) }
	for _, tc := range []struct {
		bound Bound
		want  bool
	}{{Bound{PerByte: 16}, true}, {Bound{PerByte: 16, Fixed: 1 << 21}, false}, {Bound{PerByte: 1 << 17}, false}, {Bound{Fixed: 1 << 18}, true}} {
		fails(t, tc.want, fmt.Sprint(tc.bound), func(tb testing.TB) { tc.bound.Check(tb, "a megabyte", 16, take) })
	}
}
