package layout_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// list returns a NameList.
func list(t testing.TB, names ...string) *layout.NameList {
	t.Helper()
	var l layout.NameList
	for _, name := range names {
		at := uint32(len(l.Text))
		l.Text = append(l.Text, name...)
		l.Spans = append(l.Spans, layout.Span{At: at, End: uint32(len(l.Text))})
	}
	if !l.File() {
		t.Fatal("two are the same")
	}
	return &l
}

// TestRoster decodes three files that hold what is expected or not, and compares each with one decoded without a roster.
func TestRoster(t *testing.T) {
	names := []string{"a0", "c0", "a1", "b0", "c1", "a2"}
	fileOf := []uint32{0, 2, 0, 1, 2, 0}
	as := []string{"a0", "a1", "a2"}
	for _, tt := range []struct {
		what     string
		as       []string
		declared int
		ok       bool
		err      error
	}{
		{"as expected", as, 3, true, nil},
		{"in another order", []string{"a2", "a0", "a1"}, 3, true, nil},
		{"fewer than declared", as, 7, true, nil},
		{"more than declared", as, 2, false, layout.ErrLimit},
		{"one missing", as[:2], 3, false, nil},
		{"none", nil, 0, false, nil},
		{"one more", []string{"a0", "a1", "a2", "x"}, 4, false, nil},
		{"another", []string{"a0", "x", "a2"}, 3, false, nil},
		{"of another file", []string{"a0", "a1", "b0"}, 3, false, nil},
		{"twice", []string{"a0", "a1", "a0"}, 3, false, layout.ErrDuplicate},
		{"twice, behind another", []string{"x", "a1", "x"}, 3, false, layout.ErrDuplicate},
		{"too long", []string{"a0", strings.Repeat("a", 1<<16)}, 2, false, layout.ErrLimit},
	} {
		roster := layout.NewRoster(list(t, names...), fileOf, 3)
		decode := func(r *layout.Roster, file, declared int, names []string) (*layout.Index, error) {
			b, err := layout.NewBuilder(layout.GGUF, 8, uint64(declared), "offset", r.Limits(nil, file).WithDefaults())
			if err != nil {
				return nil, err
			}
			for i, name := range names {
				x := b.Next()
				*x = u8(name, uint64(i), 1)
				if err := b.Add(0); err != nil {
					return nil, err
				}
			}
			return b.Finish()
		}
		got, err := decode(roster, 0, tt.declared, tt.as)
		want, wantErr := decode(nil, 0, tt.declared, tt.as)
		if !errors.Is(err, tt.err) || fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && fmt.Sprint(got.Tensors) != fmt.Sprint(want.Tensors) {
			t.Errorf("%s: %v, %v; without a roster %v, %v", tt.what, got, err, want, wantErr)
			continue
		}
		decode(roster, 2, 2, []string{"c0", "c1"})
		if _, _, ok := roster.Table(); ok {
			t.Errorf("%s: a table before all files are decoded", tt.what)
		}
		decode(roster, 1, 1, []string{"b0"})
		tensors, table, ok := roster.Table()
		if ok != tt.ok {
			t.Errorf("%s: a table: %t", tt.what, ok)
		}
		if !ok {
			continue
		}
		all := layout.Index{Tensors: tensors, Names: table}
		for i, name := range append(slices.Clone(tt.as), "b0", "c0", "c1") {
			x := &tensors[i]
			if file := int(name[0] - 'a'); string(x.Name) != name || all.Find(name) != i || int(x.File) != file || x.Stored != 1 {
				t.Errorf("%s: tensor %d is %s of file %d, and %s is found at %d", tt.what, i, x.Name, x.File, name, all.Find(name))
			}
		}
		if len(tensors) != len(names) || all.Find("x") != -1 {
			t.Errorf("%s: %d tensors", tt.what, len(tensors))
		}
	}
	if _, _, ok := (*layout.Roster)(nil).Table(); ok || (*layout.Roster)(nil).Limits(nil, 0) != nil {
		t.Error("no roster has a table")
	}
}
