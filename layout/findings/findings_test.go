package findings

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// shown are findings as field@offset, failures with a "!".
func shown(all []layout.Finding) string {
	var list []string
	for _, f := range all {
		mark := "!"
		if f.Warning {
			mark = ""
		}
		list = append(list, fmt.Sprintf("%s%s@%d", mark, f.Field, f.Offset))
	}
	return strings.Join(list, " ")
}

func TestList(t *testing.T) {
	l := New(layout.TSM)
	if got := l.All(); got != nil {
		t.Errorf("nothing is %v", got)
	}
	l.Warn(3, "name", layout.ErrUnsupported, "%d is odd", 7)
	l.Fail(nil)
	l.Fail(io.EOF)
	e := layout.Errorf(layout.GGUF, 1, "size", layout.ErrInvalid, "no")
	l.Fail(fmt.Errorf("around it: %w", e))
	want := []layout.Finding{{FormatError: layout.Errorf(layout.TSM, 3, "name", layout.ErrUnsupported, "7 is odd"), Warning: true}, {FormatError: e}}
	if got := l.All(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Past a hundred of a kind they are counted.
func TestMost(t *testing.T) {
	l := New(layout.TSM)
	for i := range uint64(limit) {
		l.Warn(i, "name", layout.ErrInvalid, "odd")
		l.Fail(layout.Errorf(layout.TSM, i, "name", layout.ErrInvalid, "bad"))
	}
	l.Warn(7, "size", layout.ErrInvalid, "odd")
	if got := l.All(); len(got) != 2*limit+1 {
		t.Fatalf("%d findings", len(got))
	}
	l.Warn(1000, "name", layout.ErrUnsupported, "odd")
	l.Warn(1001, "name", layout.ErrInvalid, "odd")
	for range 2 { // to ask is not to add
		got := l.All()
		if rest := shown(got[2*limit:]); rest != "size@7 name@1000" {
			t.Fatalf("at the end: %s", rest)
		}
		if last := got[len(got)-1]; last.Reason != "2 more like the 100 listed" || last.Err != layout.ErrUnsupported || !last.Warning {
			t.Errorf("the last is %v", last)
		}
	}
	l.Fail(layout.Errorf(layout.TSM, 2000, "name", layout.ErrInvalid, "bad"))
	if rest := shown(l.All()[2*limit:]); rest != "size@7 name@1000 !name@2000" {
		t.Errorf("at the end: %s", rest)
	}
}

func TestGaps(t *testing.T) {
	ix := &layout.Index{
		Size:     100,
		Sections: []layout.Section{{Offset: 50, Size: 10}, {Offset: 2, Size: 8}, {Offset: 30}},
		Tensors: []layout.Tensor{
			{Offset: 20, Stored: 10},
			{Offset: 25, Stored: 5, Alias: true},
			{Offset: 10, Stored: 5},
			{Offset: 80},
		},
	}
	for least, want := range map[uint64]string{1: "padding@0 padding@15 padding@30", 2: "padding@0 padding@15 padding@30", 3: "padding@15 padding@30", 6: "padding@30", 21: ""} {
		l := New(layout.APR1)
		if end := l.Gaps(ix, least); end != 60 {
			t.Errorf("the last part ends at %d", end)
		}
		if got := shown(l.All()); got != want {
			t.Errorf("from %d bytes on: %s, want %s", least, got, want)
		}
	}
	l := New(layout.APR1)
	if end := l.Gaps(&layout.Index{Size: 8}, 1); end != 0 || l.All() != nil {
		t.Errorf("of nothing: %d, %v", end, l.All())
	}
}

// TestMisaligned: what has no bytes is where it may be, and a broken promise weighs more.
func TestMisaligned(t *testing.T) {
	ix := &layout.Index{Align: 8, Tensors: []layout.Tensor{{Offset: 8, Stored: 1}, {Offset: 12, Stored: 1}, {Offset: 13}}}
	for _, weight := range []Weight{Failure, Warning} {
		l := New(layout.TSM)
		l.Misaligned(ix, weight)
		if all := l.All(); len(all) != 1 || all[0].Offset != 12 || all[0].Field != "offset" || all[0].Warning != (weight == Warning) || !errors.Is(all[0], layout.ErrMisaligned) {
			t.Errorf("warning %t: %v", weight, all)
		}
	}
}
