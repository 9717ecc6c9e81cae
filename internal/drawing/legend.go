package drawing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
)

// Measures of the legend, in pixels.
const (
	swatch     = 12
	legendGap  = 22 // from a swatch to its text
	nameLength = 28
)

// legendRow is a line of the legend.
type legendRow struct {
	class, name string
	numbers     []string
}

// legend draws the title and the legend, as an element that the page of package explore makes a table of.
func (p *picture) legend() {
	left := float64(p.left)
	p.w.WriteString(`<g class="legend">` + "\n")
	defer p.w.WriteString("</g>\n")
	p.text("h", left, 36, report.Shorten(report.Printable(p.Title), 90))
	p.text("q", left, 58, p.about()+" · a row is "+exactSize(p.rowSize))
	heading := "dtype"
	if p.Coloring != nil {
		heading = p.Coloring.Heading
	}
	var kinds []legendRow
	for i, t := range slices.Concat(p.dtypes, p.within) {
		where := ""
		if i >= len(p.dtypes) {
			where = ", inside"
		}
		numbers := []string{report.Grouped(t.Tensors), report.Count(t.Elements), report.Size(t.Bytes), report.Share(t.Bytes, p.bytes)}
		kinds = append(kinds, legendRow{p.fills[t.Kind].class(), t.Kind + where, numbers})
	}
	p.column(left, []string{strings.ToUpper(heading), "TENSORS", "ELEMENTS", "SIZE", "OF ALL"}, []float64{340, 430, 530, 620}, kinds)
	p.column(700, []string{"ELSE", "SIZE", "OF ALL"}, []float64{1060, left + float64(p.width)}, p.otherRows())
}

// column draws rows of the legend under a heading, from x left on. Column i of their numbers ends at x ends[i].
func (p *picture) column(left float64, heading []string, ends []float64, rows []legendRow) {
	const top = legendTop - 6
	p.text("u", left+legendGap, top, heading[0])
	for i, end := range ends {
		p.text("u e", end, top, heading[i+1])
	}
	fmt.Fprintf(p.w, `<path class="rule" d="M%s %d.5H%s"/>`+"\n", px(left), top+5, px(ends[len(ends)-1]))
	for i, row := range rows {
		y := float64(legendTop + (i+1)*legendPitch)
		p.swatch(row.class, left, y)
		p.text("", left+legendGap, y, row.name)
		for i, number := range row.numbers {
			p.text("e", ends[i], y, number)
		}
	}
}

// about returns format, size and numbers of tensors and elements of the model.
func (p *picture) about() string {
	return fmt.Sprintf("%s · %s · %s · %s elements", p.format, report.Exactly(report.Size(p.bytes), p.bytes, 1024, " bytes"),
		report.Counted(p.tensors, "tensor"), report.Count(p.all.Elements))
}

// swatch draws a square, or a bar for what is in memory (class m), as an example of class at x. Its text has the base line y.
func (p *picture) swatch(class string, x, y float64) {
	if class == "k" { // a hatch lies upon a colour
		p.swatch("n", x, y)
	}
	height := float64(swatch)
	if class == "m" {
		height, y = memoryBar, y+4
	}
	fmt.Fprintf(p.w, `<rect class="%s" x="%s" y="%s" width="%d" height="%s"/>`+"\n", class, px(x), px(y-10), swatch, px(height))
}

// otherRows returns a line for everything but dtypes that there is; its numbers are size, share.
func (p *picture) otherRows() (rows []legendRow) {
	add := func(class, name string, bytes uint64) {
		if bytes > 0 {
			rows = append(rows, legendRow{class, name, []string{report.Size(bytes), report.Share(bytes, p.bytes)}})
		}
	}
	const named = 8
	rest := uint64(0)
	for i, s := range p.sections {
		if i < named {
			add("s", report.Shorten(report.Printable(s.Kind), nameLength), s.Bytes)
		} else {
			rest += s.Bytes
		}
	}
	add("s", "other sections", rest)
	add("p", "padding", p.padding)
	add("x", "belongs to nothing", p.unknown)
	for _, t := range p.packed {
		add("k", fmt.Sprintf("%s: %s, %s raw", t.encoding, report.Counted(t.Tensors, "tensor"), report.Size(t.raw)), t.Bytes)
	}
	if p.resident != nil {
		rows = append(rows, legendRow{"m", "in memory now", []string{report.Size(*p.resident), report.Share(*p.resident, p.bytes)}})
	}
	return rows
}
