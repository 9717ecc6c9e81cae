package report

import (
	"fmt"
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
		{34, "NAME        DTYPE  OFFSET\nabcdefghij  F32         7\nk           BF16   123456\nnot shown: elements\n"},
		{25, "NAME        DTYPE  OFFSET\nabcdefghij  F32         7\nk           BF16   123456\nnot shown: elements\n"},
		{24, "NAME        DTYPE\nabcdefghij  F32\nk           BF16\nnot shown: elements,\n  offset\n"},
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

// TestGridDistinct: names are cut where they do not become one, or columns go, or lines are longer.
func TestGridDistinct(t *testing.T) {
	experts := func(format string) (rows [][]string) {
		for i := range 12 {
			rows = append(rows, []string{fmt.Sprintf(format, i), "1.5", "2.5"})
		}
		return rows
	}
	for _, test := range []struct {
		format, first, says string
		width               int
	}{
		{"model.layers.%d.weight", "model.layers.0.weight   1.5  2.5", "", 33},
		{"model.language_model.layers.mlp.%d.weight", "model.langu…lp.0.weight  1.5  2.5", "", 33},
		{"model.language_model.layers.mlp.%d.down_proj.weight", "….mlp.0.down_proj.weight  1.5  2.5", "", 34}, // more of the end
		{"model.abcdef.%d.language_model.layers.weight", "model.abcdef.0.lan…  1.5  2.5", "", 29},             // more of the beginning
		{"language_model.encoder.stack.%d.transformer.feed_forward.weight", "language_model.encoder.stack.0.t…  2.5", "not shown: min", 38},
		{"language_model.encoder.stack.%d.transformer.feed_forward.weight", "language_model.encoder.stack.0.transformer.feed_forward.weight", "not shown: min, max", 24},
	} {
		g := &Grid{Heading: []string{"name", ">min", ">max"}, Last: []string{"min", "max"}, Rows: slices.Values(experts(test.format))}
		var b strings.Builder
		g.Write(&b, Screen{Width: test.width})
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		seen := make(map[string]bool)
		for _, line := range lines[1:13] {
			seen[line[:strings.Index(line+"  ", "  ")]] = true
		}
		if len(seen) != 12 || strings.TrimSpace(lines[1]) != strings.TrimSpace(test.first) || strings.Join(lines[13:], "\n") != test.says {
			t.Errorf("%d columns:\n%s", test.width, b.String())
		}
	}
}
