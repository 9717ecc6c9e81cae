package main

import (
	"bytes"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
)

// grid is a table of cells under a heading. It keeps no rows: they are gone through once for
// the widths of columns, and once to be written.
type grid struct {
	heading []string
	numbers []bool // columns of numbers, aligned to the right
	// rows are the same in the same order every time. A row is valid until the next.
	rows  iter.Seq[[]string]
	total []string // an optional last row
	spare []string // headings of columns that a narrow screen goes without, the first first
}

const gap = "  "

// write draws the grid without borders. Where the screen is too narrow, spare columns are
// left out, and then the first column is shortened.
func (g *grid) write(w io.Writer, s screen) {
	l := gridLines{w: w, numbers: g.numbers, widths: g.widths()}
	for i := range g.heading {
		l.shown = append(l.shown, i)
	}
	for _, heading := range g.spare {
		if s.width > 0 && l.width() > s.width {
			i := slices.Index(g.heading, heading)
			l.shown = slices.DeleteFunc(l.shown, func(c int) bool { return c == i })
		}
	}
	if s.width > 0 {
		const least = 16 // below that, names are no use: rather let lines be wrapped
		l.room = max(least, s.width-(l.width()-l.widths[0]))
		l.widths[0] = min(l.widths[0], l.room)
	}
	heading := make([]string, len(g.heading))
	for i, cell := range g.heading {
		heading[i] = strings.ToUpper(cell)
	}
	l.bold = s.color
	l.write(heading)
	l.bold = false
	for row := range g.rows {
		l.write(row)
	}
	if g.total != nil {
		l.bold = s.color
		l.write(g.total)
	}
}

// widths returns the width of every column.
func (g *grid) widths() []int {
	widths := make([]int, len(g.heading))
	add := func(row []string) {
		for i, cell := range row {
			widths[i] = max(widths[i], cellWidth(cell))
		}
	}
	add(g.heading)
	for row := range g.rows {
		add(row)
	}
	add(g.total)
	return widths
}

// cellWidth returns the number of columns of a screen that a cell takes.
func cellWidth(cell string) int {
	for i := range len(cell) {
		if cell[i] >= utf8.RuneSelf {
			return text.StringWidth(cell)
		}
	}
	return len(cell) // printable characters only
}

// gridLines writes rows as lines.
type gridLines struct {
	w       io.Writer
	numbers []bool
	widths  []int
	shown   []int // columns
	room    int   // for the first column; 0 is any
	bold    bool
	line    []byte
}

// width returns the width of a line: of all columns shown and the gaps between them.
func (l *gridLines) width() int {
	width := len(gap) * (len(l.shown) - 1)
	for _, i := range l.shown {
		width += l.widths[i]
	}
	return width
}

func (l *gridLines) write(row []string) {
	l.line = l.line[:0]
	for n, i := range l.shown {
		cell := row[i]
		if i == 0 && l.room > 0 {
			cell = shorten(cell, l.room)
		}
		space := l.widths[i] - cellWidth(cell)
		if n > 0 {
			l.line = append(l.line, gap...)
		}
		if l.numbers[i] {
			l.line = appendSpaces(l.line, space)
		}
		l.line = append(l.line, cell...)
		if !l.numbers[i] {
			l.line = appendSpaces(l.line, space)
		}
	}
	l.line = bytes.TrimRight(l.line, " ")
	if l.bold {
		l.line = []byte(text.Colors{text.Bold}.Sprint(string(l.line)))
	}
	l.line = append(l.line, '\n')
	l.w.Write(l.line)
}

func appendSpaces(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
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
