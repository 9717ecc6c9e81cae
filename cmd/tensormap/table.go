package main

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// grid is a table of cells under a heading.
type grid struct {
	heading []string
	numbers []bool // columns of numbers, aligned to the right
	rows    [][]string
	total   []string // an optional last row
	spare   []string // headings of columns that a narrow screen goes without, the first first
}

const gap = "  "

// write draws the grid without borders. Where the screen is too narrow, spare columns are
// left out, and then the first column is shortened.
func (g *grid) write(w io.Writer, s screen) {
	for _, heading := range g.spare {
		if s.width > 0 && g.width() > s.width {
			g.remove(slices.Index(g.heading, heading))
		}
	}
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(gridStyle(s))
	t.SuppressTrailingSpaces()
	t.SetColumnConfigs(g.columns())
	t.AppendHeader(cells(g.heading))
	room := g.firstColumn(s)
	for _, row := range g.rows {
		r := cells(row)
		if room > 0 {
			r[0] = shorten(row[0], room)
		}
		t.AppendRow(r)
	}
	if g.total != nil {
		t.AppendFooter(cells(g.total))
	}
	t.Render()
}

func (g *grid) columns() (configs []table.ColumnConfig) {
	for i, number := range g.numbers {
		align := text.AlignLeft
		if number {
			align = text.AlignRight
		}
		configs = append(configs, table.ColumnConfig{Number: i + 1, Align: align, AlignHeader: align, AlignFooter: align})
	}
	return configs
}

// firstColumn is the width that the other columns leave to the first; 0 is any.
func (g *grid) firstColumn(s screen) int {
	if s.width == 0 {
		return 0
	}
	const least = 16 // below that, names are no use: rather let lines be wrapped
	return max(least, s.width-(g.width()-g.columnWidth(0)))
}

// width is that of all columns and the gaps between them.
func (g *grid) width() int {
	width := len(gap) * (len(g.heading) - 1)
	for i := range g.heading {
		width += g.columnWidth(i)
	}
	return width
}

// remove takes column i away; a grid that may lose columns has no total.
func (g *grid) remove(i int) {
	g.heading = slices.Delete(g.heading, i, i+1)
	g.numbers = slices.Delete(g.numbers, i, i+1)
	for r := range g.rows {
		g.rows[r] = slices.Delete(g.rows[r], i, i+1)
	}
}

func (g *grid) columnWidth(i int) int {
	width := utf8.RuneCountInString(g.heading[i])
	for _, row := range g.rows {
		width = max(width, text.StringWidth(row[i]))
	}
	if g.total != nil {
		width = max(width, text.StringWidth(g.total[i]))
	}
	return width
}

func gridStyle(s screen) table.Style {
	style := table.Style{
		Name:    "plain",
		Box:     table.BoxStyle{PaddingRight: gap, MiddleHorizontal: "─"},
		Options: table.OptionsNoBordersAndSeparators,
		Format:  table.FormatOptions{Header: text.FormatUpper},
	}
	if s.color {
		style.Color.Header = text.Colors{text.Bold}
		style.Color.Footer = text.Colors{text.Bold}
	}
	return style
}

func cells(row []string) table.Row {
	r := make(table.Row, len(row))
	for i, cell := range row {
		r[i] = cell
	}
	return r
}

// facts are names and values, one a line; a value of several lines is indented.
type facts [][2]string

func (f *facts) add(name, value string) { *f = append(*f, [2]string{name, value}) }

func (f facts) write(w io.Writer, s screen) {
	width := 0
	for _, fact := range f {
		width = max(width, text.StringWidth(fact[0]))
	}
	for _, fact := range f {
		name := fact[0] + strings.Repeat(" ", width-text.StringWidth(fact[0]))
		if s.color {
			name = text.Colors{text.Bold}.Sprint(name)
		}
		value := strings.ReplaceAll(fact[1], "\n", "\n"+strings.Repeat(" ", width+len(gap)))
		io.WriteString(w, name+gap+value+"\n")
	}
}
