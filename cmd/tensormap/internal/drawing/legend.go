package drawing

import (
	"fmt"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
)

// Columns of the legend, in pixels.
const (
	swatch     = 12
	dtypeLeft  = rowLeft
	restLeft   = 700
	legendGap  = 22 // from a swatch to its text
	nameLength = 28
)

// numberEnds are where the numbers of dtypes end: tensors, elements, size, share.
var numberEnds = [...]float64{340, 430, 530, 620}

// legendRow is a line of the legend.
type legendRow struct {
	class, name string
	numbers     []string
}

func (p *picture) legendEnd() int {
	return legendTop + (max(len(p.mm.dtypes)+len(p.mm.within), len(p.restRows()))+1)*legendPitch
}

func (p *picture) legend() {
	mm := p.mm
	p.text("h", rowLeft, 36, terminal.Shorten(terminal.Printable(mm.title), 90))
	p.text("q", rowLeft, 58, p.about()+" · a row is "+offset(mm.rowSize))
	p.heading(dtypeLeft, []string{"DTYPE", "TENSORS", "ELEMENTS", "SIZE", "OF ALL"}, numberEnds[:], numberEnds[len(numberEnds)-1])
	for i, row := range p.dtypeRows() {
		y := float64(legendTop + (i+1)*legendPitch)
		p.swatch(row.class, dtypeLeft, y)
		p.text("", dtypeLeft+legendGap, y, row.name)
		for i, number := range row.numbers {
			p.text("e", numberEnds[i], y, number)
		}
	}
	const sizeEnd, moreEnd = 1060, rowLeft + rowWidth
	p.heading(restLeft, []string{"ELSE", "SIZE", "OF ALL"}, []float64{sizeEnd, moreEnd}, moreEnd)
	for i, row := range p.restRows() {
		y := float64(legendTop + (i+1)*legendPitch)
		p.swatch(row.class, restLeft, y)
		p.text("", restLeft+legendGap, y, row.name)
		p.text("e", sizeEnd, y, row.numbers[0])
		p.text("e", moreEnd, y, row.numbers[1])
	}
}

// about says what there is to say of the model beside its name.
func (p *picture) about() string {
	mm := p.mm
	return fmt.Sprintf("%s · %s · %s · %s elements", mm.format, report.Exactly(report.Size(mm.bytes), mm.bytes, 1024, " bytes"),
		report.Counted(mm.tensors(), "tensor"), report.Count(mm.all.Elements))
}

// dtypeRows returns a line for each dtype; its numbers are tensors, elements, size, share.
func (p *picture) dtypeRows() (rows []legendRow) {
	add := func(totals []report.Total, where string) {
		for _, t := range totals {
			numbers := []string{report.Grouped(t.Tensors), report.Count(t.Elements), report.Size(t.Bytes), report.Share(t.Bytes, p.mm.bytes)}
			rows = append(rows, legendRow{p.fill[t.Kind].class(), t.Kind + where, numbers})
		}
	}
	add(p.mm.dtypes, "")
	add(p.mm.within, ", inside")
	return rows
}

// tensors counts all tensors, wherever they lie.
func (mm *Map) tensors() (n uint64) {
	for i := range mm.files {
		n += uint64(mm.files[i].tensors)
	}
	return n
}

func (p *picture) heading(left float64, columns []string, ends []float64, right float64) {
	const y = legendTop - 6
	p.text("u", left+legendGap, y, columns[0])
	for i, end := range ends {
		p.text("u e", end, y, columns[i+1])
	}
	fmt.Fprintf(p.w, `<path class="rule" d="M%s %d.5H%s"/>`+"\n", px(left), y+5, px(right))
}

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

// restRows returns a line for everything but dtypes that there is; its numbers are size, share.
func (p *picture) restRows() (rows []legendRow) {
	mm := p.mm
	add := func(class, name string, bytes uint64) {
		if bytes > 0 {
			rows = append(rows, legendRow{class, name, []string{report.Size(bytes), report.Share(bytes, mm.bytes)}})
		}
	}
	const named = 8
	rest := uint64(0)
	for i, s := range mm.sections {
		if i < named {
			add("s", terminal.Shorten(terminal.Printable(s.Kind), nameLength), s.Bytes)
		} else {
			rest += s.Bytes
		}
	}
	add("s", "other sections", rest)
	add("p", "padding", mm.padding)
	add("x", "belongs to nothing", mm.unknown)
	for _, t := range mm.packed {
		add("k", fmt.Sprintf("%s: %s, %s raw", t.encoding, report.Counted(t.Tensors, "tensor"), report.Size(t.raw)), t.Bytes)
	}
	if mm.resident != nil {
		rows = append(rows, legendRow{"m", "in memory now", []string{report.Size(*mm.resident), report.Share(*mm.resident, mm.bytes)}})
	}
	return rows
}
