package layout_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// part is something in a file: a tensor, a tensor inside another, or a section.
type part struct {
	kind      partKind
	off, size uint64
}

type partKind int

const (
	aTensor partKind = iota
	anAlias
	aSection

	partKinds
)

// overlapsAt lists the first shared byte of every two parts that overlap.
func overlapsAt(parts []part) (at []uint64) {
	for i, x := range parts {
		for _, y := range parts[:i] {
			from, to := max(x.off, y.off), min(x.off+x.size, y.off+y.size)
			if from < to && x.kind != anAlias && y.kind != anAlias {
				at = append(at, from)
			}
		}
	}
	return at
}

// build gives the parts to a Builder in the order they are in.
func build(t testing.TB, size uint64, parts []part) error {
	t.Helper()
	b := newBuilder(t, size, uint64(len(parts)))
	for i, p := range parts {
		name := string(rune('a' + i))
		if p.kind == aSection {
			b.Section(name, 0, p.off, p.size)
			continue
		}
		x := u8(name, p.off, p.size)
		x.Alias = p.kind == anAlias
		if err := add(b, x, 0); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.Finish()
	return err
}

// checkOverlap compares Finish with the comparison of every part with every other.
func checkOverlap(t testing.TB, size uint64, parts []part) {
	t.Helper()
	err, at := build(t, size, parts), overlapsAt(parts)
	if len(at) == 0 {
		if err != nil {
			t.Errorf("%v: %v, want no error", parts, err)
		}
		return
	}
	var fe *layout.FormatError
	if !errors.As(err, &fe) || !errors.Is(err, layout.ErrOverlap) {
		t.Errorf("%v: error %v, want an overlap at one of %d", parts, err, at)
		return
	}
	for _, a := range at {
		if fe.Offset == a {
			return
		}
	}
	t.Errorf("%v: error %v, want an overlap at one of %d", parts, err, at)
}

func TestOverlap(t *testing.T) {
	tests := []struct {
		what  string
		parts []part
		want  string // of the error; empty for none
	}{
		{"touching", []part{{aSection, 0, 4}, {aTensor, 4, 4}, {aTensor, 8, 4}, {aSection, 12, 4}}, ""},
		{"touching, unsorted", []part{{aTensor, 8, 4}, {aTensor, 4, 4}, {aSection, 12, 4}, {aSection, 0, 4}}, ""},
		{"sections in gaps", []part{{aTensor, 0, 4}, {aSection, 4, 4}, {aTensor, 8, 4}, {aSection, 12, 2}}, ""},
		{"alias", []part{{aTensor, 4, 8}, {anAlias, 4, 8}, {anAlias, 6, 2}, {aTensor, 12, 4}}, ""},
		{"empty anywhere", []part{
			{aTensor, 0, 8}, {aTensor, 0, 0}, {aTensor, 4, 0}, {aTensor, 8, 0}, {aTensor, 8, 8}, {aTensor, 16, 0},
			{aSection, 12, 0}, {aTensor, 3, 0},
		}, ""},
		{"tensors", []part{{aTensor, 0, 5}, {aTensor, 4, 4}},
			`gguf: offset 4: offset: tensor "a" (5 bytes at 0) and tensor "b" (4 bytes at 4) overlap (overlap)`},
		{"tensors, unsorted", []part{{aTensor, 4, 4}, {aTensor, 0, 5}},
			`gguf: offset 4: offset: tensor "b" (5 bytes at 0) and tensor "a" (4 bytes at 4) overlap (overlap)`},
		{"the same bytes", []part{{aTensor, 4, 4}, {aTensor, 4, 4}},
			`gguf: offset 4: offset: tensor "a" (4 bytes at 4) and tensor "b" (4 bytes at 4) overlap (overlap)`},
		{"not the neighbour", []part{{aTensor, 0, 12}, {aTensor, 14, 2}, {aTensor, 13, 1}, {aTensor, 10, 1}},
			`gguf: offset 10: offset: tensor "a" (12 bytes at 0) and tensor "d" (1 bytes at 10) overlap (overlap)`},
		{"tensor and section", []part{{aSection, 0, 5}, {aTensor, 4, 4}},
			`gguf: offset 4: offset: section a (5 bytes at 0) and tensor "b" (4 bytes at 4) overlap (overlap)`},
		{"section inside a tensor", []part{{aTensor, 0, 16}, {aSection, 15, 1}},
			`gguf: offset 15: offset: tensor "a" (16 bytes at 0) and section b (1 bytes at 15) overlap (overlap)`},
		{"sections", []part{{aSection, 8, 8}, {aSection, 0, 9}},
			`gguf: offset 8: offset: section b (9 bytes at 0) and section a (8 bytes at 8) overlap (overlap)`},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			err := build(t, 16, tt.parts)
			if got := fmt.Sprint(err); tt.want == "" && err != nil || tt.want != "" && got != tt.want {
				t.Errorf("error %v\nwant  %s", err, tt.want)
			}
			checkOverlap(t, 16, tt.parts)
		})
	}
}

// Every arrangement of three parts in a file of four bytes, in every order.
func TestOverlapExhaustively(t *testing.T) {
	const size = 4
	var all []part
	for kind := range partKinds {
		for off := range uint64(size + 1) {
			for n := range size - off + 1 {
				all = append(all, part{kind, off, n})
			}
		}
	}
	overlapping := 0
	for _, x := range all {
		for _, y := range all {
			for _, z := range all {
				parts := []part{x, y, z}
				checkOverlap(t, size, parts)
				if len(overlapsAt(parts)) > 0 {
					overlapping++
				}
			}
		}
	}
	if n := len(all); overlapping < n || overlapping > n*n*n-n {
		t.Errorf("%d of %d arrangements overlap; the test is lopsided", overlapping, n*n*n)
	}
}

// FuzzOverlap reads three bytes a part, with as many as 26 of them.
func FuzzOverlap(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2, 0, 4, 0, 4, 4, 0, 8, 4})
	f.Add([]byte{0, 8, 4, 0, 4, 4, 2, 6, 1})
	f.Add([]byte{0, 0, 9, 1, 2, 2, 2, 9, 1, 0, 20, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		const size = 64
		var parts []part
		for ; len(b) >= 3 && len(parts) < 26; b = b[3:] {
			off := uint64(b[1]) % (size + 1)
			parts = append(parts, part{partKind(b[0]) % partKinds, off, uint64(b[2]) % (size - off + 1)})
		}
		checkOverlap(t, size, parts)
	})
}
