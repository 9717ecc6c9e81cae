// Package report writes results: tables, facts, JSON line by line, and numbers for people.
package report

import (
	"bytes"
	"hash/maphash"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Screen is how a stream may be written to.
type Screen struct {
	Width int // in characters; 0 if lines may be as long as they like
	Color bool
}

// Grid is a table of cells under a heading. It does not store rows: it iterates over them once for
// the widths of columns, and once to write them.
type Grid struct {
	Heading []string // Number marks the headings of columns of numbers
	// Rows are the same in the same order every time. A row is valid until the next.
	Rows     iter.Seq[[]string]
	Total    []string // an optional last row
	Hidden   []string // headings of columns that are left out
	Optional []string // headings of columns that are left out if all of their cells are empty
	Spare    []string // headings of columns that a narrow screen goes without, the first first
	// Last are headings of columns that a narrow screen goes without where names are alike otherwise, the first first.
	Last []string
}

// Gap is the space between columns.
const Gap = "  "

// Number before a heading aligns its column to the right.
const Number = ">"

// Rows returns the rows of a grid: the cells of each element of list.
func Rows[R any](list []R, cells func(*R) []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for i := range list {
			if !yield(cells(&list[i])) {
				return
			}
		}
	}
}

// Write draws the grid without borders. Where the screen is too narrow, spare columns are left out, and then the first column is
// shortened. No two names become one by that. A last line says which columns are left out.
func (g *Grid) Write(w io.Writer, s Screen) {
	l := lineWriter{w: w}
	heading := make([]string, len(g.Heading))
	for i, name := range g.Heading {
		name, number := strings.CutPrefix(name, Number)
		heading[i] = strings.ToUpper(name)
		l.columns = append(l.columns, column{i, name, number, 0})
	}
	widen := func(row []string) {
		for i, cell := range row {
			l.columns[i].width = max(l.columns[i].width, cellWidth(cell))
		}
	}
	for row := range g.Rows {
		widen(row)
	}
	widen(g.Total)
	l.columns = slices.DeleteFunc(l.columns, func(c column) bool {
		return slices.Contains(g.Hidden, c.name) || c.width == 0 && slices.Contains(g.Optional, c.name)
	})
	for i := range l.columns {
		l.columns[i].width = max(l.columns[i].width, cellWidth(heading[l.columns[i].at]))
	}
	var without []string
	leaveOut := func(name string) {
		before := len(l.columns)
		l.columns = slices.DeleteFunc(l.columns, func(c column) bool { return c.name == name })
		if len(l.columns) < before {
			without = append(without, name)
		}
	}
	isFitting := func() bool { return s.Width == 0 || l.width() <= s.Width }
	for _, name := range g.Spare {
		if !isFitting() {
			leaveOut(name)
		}
	}
	for last := g.Last; !isFitting(); last = last[1:] {
		const least = 16 // narrower names are no use: the screen wraps the lines then
		first := &l.columns[0]
		if l.maxName = max(least, s.Width-(l.width()-first.width)); g.findHead(&l) {
			first.width = min(first.width, l.maxName)
			break
		}
		if l.maxName = 0; len(last) == 0 {
			break
		}
		leaveOut(last[0])
	}
	l.write(heading, s.Color)
	for row := range g.Rows {
		l.write(row, plain)
	}
	if g.Total != nil {
		l.write(g.Total, s.Color)
	}
	if without != nil {
		io.WriteString(w, sentence("not shown: ", without, s.Width)+"\n")
	}
}

// sentence returns a list behind its beginning, in lines of at most width columns of the screen where that is possible.
func sentence(beginning string, list []string, width int) string {
	text, column := beginning+list[0], len(beginning)+len(list[0])
	for _, one := range list[1:] {
		if column += len(", ") + len(one); column+len(",") > width {
			text, column = text+",\n"+Gap+one, len(Gap)+len(one)
			continue
		}
		text += ", " + one
	}
	return text
}

var seed = maphash.MakeSeed()

// findHead finds how much of the beginnings of shortened names to show. It returns false if two of them become one anyway.
func (g *Grid) findHead(l *lineWriter) bool {
	for _, l.head = range []int{l.maxName / 2, l.maxName / 4, 3 * l.maxName / 4, 0, l.maxName - 1} {
		names, isFree := make(map[uint64]uint64), true // hashes take little memory, however long names are
		for row := range g.Rows {
			short, whole := maphash.String(seed, shorten(row[0], l.maxName, l.head)), maphash.String(seed, row[0])
			if name, isTaken := names[short]; isTaken && name != whole {
				isFree = false
				break
			}
			names[short] = whole
		}
		if isFree {
			return true
		}
	}
	return false
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

// column is a column of a grid that is shown.
type column struct {
	at     int // its cell in a row
	name   string
	number bool
	width  int // of the widest cell, or of the heading
}

// lineWriter writes rows as lines.
type lineWriter struct {
	w       io.Writer
	columns []column
	maxName int // columns of the screen that the first cell may take; 0 means any
	head    int // columns of the screen that its beginning takes if it is shortened
	line    []byte
}

// width returns the width of a line: of all columns shown and the gaps between them.
func (l *lineWriter) width() int {
	width := len(Gap) * (len(l.columns) - 1)
	for _, c := range l.columns {
		width += c.width
	}
	return width
}

// plain says that a row is not written in bold.
const plain = false

// write writes one row: the cells of the columns that are shown.
func (l *lineWriter) write(row []string, bold bool) {
	l.line = l.line[:0]
	for n, c := range l.columns {
		cell := row[c.at]
		if n > 0 {
			l.line = append(l.line, Gap...)
		} else if l.maxName > 0 {
			cell = shorten(cell, l.maxName, l.head)
		}
		space := strings.Repeat(" ", max(0, c.width-cellWidth(cell)))
		if c.number {
			cell, space = space, cell
		}
		l.line = append(append(l.line, cell...), space...)
	}
	l.line = bytes.TrimRight(l.line, " ")
	if bold {
		l.line = []byte(text.Colors{text.Bold}.Sprint(string(l.line)))
	}
	l.line = append(l.line, '\n')
	l.w.Write(l.line)
}

// Facts are names and values, one a line; a value of several lines is indented.
type Facts [][2]string

// Add adds a fact.
func (f *Facts) Add(name, value string) { *f = append(*f, [2]string{name, value}) }

// Write writes the facts, with the values below each other.
func (f Facts) Write(w io.Writer, s Screen) {
	width := 0
	for _, fact := range f {
		width = max(width, text.StringWidth(fact[0]))
	}
	for _, fact := range f {
		name := fact[0] + strings.Repeat(" ", width-text.StringWidth(fact[0]))
		if s.Color {
			name = text.Colors{text.Bold}.Sprint(name)
		}
		value := strings.ReplaceAll(fact[1], "\n", "\n"+strings.Repeat(" ", width+len(Gap)))
		io.WriteString(w, name+Gap+value+"\n")
	}
}
