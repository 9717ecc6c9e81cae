package report

import (
	"slices"
	"strings"
	"testing"
)

func TestGridWidth(t *testing.T) {
	const wide = "NAME        DTYPE  ELEMENTS  OFFSET\n" +
		"abcdefghij  F32         100       7\n" +
		"k           BF16          1  123456\n"
	for _, test := range []struct {
		width int
		want  string
	}{
		{0, wide},
		{200, wide},
		{35, wide},
		{34, "NAME        DTYPE  OFFSET\nabcdefghij  F32         7\nk           BF16   123456\n"},
		{25, "NAME        DTYPE  OFFSET\nabcdefghij  F32         7\nk           BF16   123456\n"},
		{24, "NAME        DTYPE\nabcdefghij  F32\nk           BF16\n"},
	} {
		g := &Grid{
			Heading: []string{"name", "dtype", ">elements", ">offset"},
			Rows:    slices.Values([][]string{{"abcdefghij", "F32", "100", "7"}, {"k", "BF16", "1", "123456"}}),
			Spare:   []string{"elements", "offset"},
		}
		var b strings.Builder
		g.Write(&b, Screen{Width: test.width})
		if b.String() != test.want {
			t.Errorf("%d columns:\n%swant\n%s", test.width, b.String(), test.want)
		}
	}
}

func TestGridShortens(t *testing.T) {
	name := strings.Repeat("a", 30) + strings.Repeat("z", 30)
	g := &Grid{Heading: []string{"name", "dtype"}, Rows: slices.Values([][]string{{name, "F32"}})}
	for width, want := range map[int]string{
		40: strings.Repeat("a", 16) + "…" + strings.Repeat("z", 16) + "  F32\n",
		10: "aaaaaaaa…zzzzzzz  F32\n", // no shorter: lines are wrapped
		0:  name + "  F32\n",
	} {
		var b strings.Builder
		g.Write(&b, Screen{Width: width})
		if _, row, _ := strings.Cut(b.String(), "\n"); row != want {
			t.Errorf("%d columns: %q, want %q", width, row, want)
		}
	}
}

// TestPages: a long table is several, and no row is left over or kept.
func TestPages(t *testing.T) {
	var b strings.Builder
	drawn := 0
	p := Pages[int]{W: &b, Draw: func(rows []int) { drawn += len(rows); b.WriteString("page\n") }}
	for i := range 2*pageRows + 1 {
		p.Add(i)
	}
	p.Flush()
	if drawn != 2*pageRows+1 || b.String() != "page\n\npage\n\npage\n" || len(p.Rows) != 0 {
		t.Errorf("%d rows in %q", drawn, b.String())
	}
}
