package drawing

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/layout"
)

// The picture's measures, in pixels.
const (
	mapWidth  = 1200
	rowLeft   = 96
	rowWidth  = 1080
	rowHeight = 28
	rowPitch  = 37 // with what is in memory, and space to the next
	memoryTop = 30 // below the row's top
	memoryBar = 3

	aboveTop    = 12 // of tensors that lie in others
	aboveHeight = 15

	leastWidth = 2   // of what is a cell of its own
	hairline   = 1.5 // what less is drawn as

	captionHeight = 40
	legendTop     = 92
	legendPitch   = 20
	bottom        = 12

	letter = 6.65 // width of one in a label, 11 px of any monospaced font
)

// frame is the place of a file's rows in a picture.
type frame struct {
	name        string
	left, width int    // of a row, in pixels
	picture     int    // width of it all
	share       uint64 // rows of this frame in a row of the wide one
}

// wide is the frame of pictures. The rows of narrow, for the screen of a phone, hold a quarter.
var (
	wide   = frame{name: "wide", left: rowLeft, width: rowWidth, picture: mapWidth, share: 1}
	narrow = frame{name: "narrow", left: 66, width: rowWidth / 4, picture: 66 + rowWidth/4 + 2, share: 4}
)

var (
	// mapStyle has colours for light and dark screens. Viewers without media queries show the light ones.
	// Selectors begin with svg, so that they do not match the page around the picture.
	//go:embed picture.css
	mapStyle string
	// mapPatterns define how padding, gaps and compressed tensors look.
	//go:embed patterns.svg
	mapPatterns string
)

// picture draws a map. w has the first error, which Flush returns.
type picture struct {
	w    *bufio.Writer
	mm   *Map
	look map[string]look
}

// WriteSVG writes a picture of mm. Errors are those of w.Flush.
func WriteSVG(w *bufio.Writer, mm *Map) {
	w.WriteString(xml.Header)
	p := picture{w: w, mm: mm, look: looksOf(mm.dtypes, mm.within)}
	p.draw()
}

// draw draws the picture.
func (p *picture) draw() {
	height := p.legendEnd() + bottom
	for i := range p.mm.files {
		height += p.captionHeight() + p.mm.files[i].rows(p.mm.rowSize)*rowPitch
	}
	fmt.Fprintf(p.w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%d" role="img">`+"\n", mapWidth, height, height)
	fmt.Fprintf(p.w, "<title>%s</title>\n<desc>%s</desc>\n<style>%s", escaped("Map of "+p.mm.title), escaped(p.about()), mapStyle)
	p.lookStyles()
	p.w.WriteString("</style>\n")
	p.patterns()
	fmt.Fprintf(p.w, `<rect class="bg" width="%d" height="%d"/>`+"\n", mapWidth, height)
	p.legend()
	top := p.legendEnd()
	for i := range p.mm.files {
		f := &p.mm.files[i]
		if p.captionHeight() > 0 {
			p.caption(f, float64(top+captionHeight-9))
		}
		top += p.captionHeight()
		d := p.in(wide, f)
		d.top = top
		d.draw()
		top += f.rows(d.rowSize) * rowPitch
	}
	p.w.WriteString("</svg>\n")
}

// lookStyles writes for each dtype of the picture its colour.
func (p *picture) lookStyles() {
	for _, f := range p.looks() {
		fmt.Fprintf(p.w, "svg .d%d{fill:%s}", f, f.paint())
	}
	for i, opacity := range shades[1:] {
		fmt.Fprintf(p.w, "svg .v%d{fill-opacity:%s}", i+1, opacity)
	}
}

// patterns writes what the styles refer to.
func (p *picture) patterns() {
	p.w.WriteString("<defs>\n" + mapPatterns)
	for _, f := range p.looks() {
		p.w.WriteString(f.pattern())
	}
	p.w.WriteString("</defs>\n")
}

// looks returns the looks that the picture has, in ascending order.
func (p *picture) looks() []look { return slices.Sorted(maps.Values(p.look)) }

// text writes one line; class may name several.
func (p *picture) text(class string, x, y float64, s string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	fmt.Fprintf(p.w, `<text%s x="%s" y="%s">%s</text>`+"\n", class, px(x), px(y), escaped(s))
}

// px formats a length with two digits after the point at most.
func px(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(f, 'f', 2, 64), "0"), ".")
}

// escaped returns s as text of XML. XML has no escape for some characters; Printable replaces
// them.
func escaped(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(terminal.Printable(s)))
	return b.String()
}

// captionHeight returns the height of a file's caption. A file alone has none: the legend has
// named it.
func (p *picture) captionHeight() int {
	if len(p.mm.files) == 1 {
		return 0
	}
	return captionHeight
}

// caption draws the name of a file, and what about says of it.
func (p *picture) caption(f *fileMap, y float64) {
	p.text("b", rowLeft, y, terminal.Shorten(terminal.Printable(f.name), 90))
	p.text("q e", rowLeft+rowWidth, y, f.about(p.mm.resident != nil))
}

// about returns size and number of tensors of a file and, if that is known, the share in memory.
func (f *fileMap) about(resident bool) string {
	about := report.Size(f.size)
	if f.tensors > 0 {
		about += " · " + report.Counted(uint64(f.tensors), "tensor")
	}
	if resident {
		about += " · " + report.Share(f.resident, f.size) + " in memory"
	}
	return about
}

// fileDrawing draws one file whose first row is at top.
type fileDrawing struct {
	*picture
	f *fileMap
	frame
	rowSize uint64 // bytes in a row
	top     int
	// drawn, if set, is called with every cell, in the order in which they are drawn.
	drawn func(*cell)
}

// in returns the drawing of a file in a frame.
func (p *picture) in(where frame, f *fileMap) *fileDrawing {
	return &fileDrawing{picture: p, f: f, frame: where, rowSize: p.mm.rowSize / where.share}
}

// draw draws rows, cells, labels and memory.
func (d *fileDrawing) draw() {
	d.rows()
	// Spans thinner than a hairline lie upon their neighbours.
	for _, hairlines := range []bool{false, true} {
		for i := range d.f.cells {
			if c := &d.f.cells[i]; d.isHairline(c) == hairlines {
				d.cell(c, 0, rowHeight, "")
			}
		}
	}
	for i := range d.f.above {
		d.cell(&d.f.above[i], aboveTop, aboveHeight, " a")
	}
	d.labels()
	d.memory()
}

// rows draws the background of each row, and its offset.
func (d *fileDrawing) rows() {
	for row := range uint64(d.f.rows(d.rowSize)) {
		y := d.top + int(row)*rowPitch
		off := row * d.rowSize
		d.text("g", float64(d.left-8), float64(y)+rowHeight/2+3.5, offset(off))
		width := d.pixels(min(d.f.size-off, d.rowSize))
		fmt.Fprintf(d.w, `<rect class="row" x="%d" y="%d" width="%s" height="%d"/>`+"\n", d.left, y, px(max(width, hairline)), rowHeight)
	}
}

// pixels returns the width of n bytes in a row.
func (d *fileDrawing) pixels(n uint64) float64 {
	return float64(n) / float64(d.rowSize) * float64(d.width)
}

// segment is the rectangle of a cell in one row, in pixels.
type segment struct{ x, y, width float64 }

// isHairline reports whether c is thinner than a cell of its own.
func (d *fileDrawing) isHairline(c *cell) bool {
	return c.end()-c.off() < leastWidth*d.mm.rowSize/rowWidth
}

// segments returns the rectangles of a cell, row by row.
func (d *fileDrawing) segments(c *cell) (list []segment) {
	off, end, rowSize := c.off(), c.end(), d.rowSize
	for row := off / rowSize; row*rowSize < end; row++ {
		from := max(off, row*rowSize) - row*rowSize
		upto := min(end-row*rowSize, rowSize)
		x, width := d.pixels(from), d.pixels(upto-from)
		if width > 4 && upto < rowSize {
			width-- // a line between neighbours
		}
		width = max(width, hairline)
		x = min(x, float64(d.width)-width)
		list = append(list, segment{float64(d.left) + x, float64(d.top) + float64(row)*rowPitch, width})
	}
	return list
}

// cell draws c: rectangles of this height, whose top is below pixels under that of a row.
func (d *fileDrawing) cell(c *cell, below, height int, class string) {
	var path strings.Builder
	for _, s := range d.segments(c) {
		fmt.Fprintf(&path, "M%s %sh%sv%dh-%[3]sz", px(s.x), px(s.y+float64(below)), px(s.width), height)
	}
	title := ""
	if d.share == wide.share { // the narrow rows have the same cells
		title = "<title>" + d.about(c) + "</title>"
	}
	fmt.Fprintf(d.w, `<path class="c %s%s" d="%s">%s</path>`+"\n", d.class(c), class, path.String(), title)
	if d.drawn != nil {
		d.drawn(c)
	}
	if s := c.main(); s.tensor != nil && s.tensor.Encoding != layout.Raw {
		fmt.Fprintf(d.w, `<path class="k" d="%s"/>`+"\n", path.String())
	}
}

// main returns the largest span of a cell, the first of several.
func (c *cell) main() *span {
	largest := &c.spans[0]
	for i := range c.spans {
		if c.spans[i].size > largest.size {
			largest = &c.spans[i]
		}
	}
	return largest
}

// class returns the class of a cell, which is that of its largest span.
func (d *fileDrawing) class(c *cell) string {
	switch s := c.main(); s.kind {
	case sectionSpan:
		return "s"
	case paddingSpan:
		return "p"
	case unknownSpan:
		return "x"
	default:
		kind, shade := s.tensor.DType.String(), 0
		if s.part != nil { // it has the colour of its weight
			kind, shade = s.part.scheme, s.part.shade
		}
		class := d.look[kind].class()
		if shade > 0 {
			class += " v" + strconv.Itoa(shade)
		}
		return class
	}
}

// about returns the text of a cell under the pointer, as XML.
func (d *fileDrawing) about(c *cell) string {
	if len(c.spans) == 1 {
		return escapedLines(c.spans[0].about())
	}
	const listed = 12
	lines := []string{c.count(), span{off: c.off(), size: c.end() - c.off()}.extent()}
	for i := range min(len(c.spans), listed) {
		lines = append(lines, c.spans[i].line())
	}
	if more := len(c.spans) - listed; more > 0 {
		lines = append(lines, fmt.Sprintf("… and %s more", report.Grouped(uint64(more))))
	}
	return escapedLines(lines)
}

// escapedLines joins lines as XML.
func escapedLines(lines []string) string {
	for i := range lines {
		lines[i] = escaped(lines[i])
	}
	return strings.Join(lines, "\n")
}

// count counts the spans of a cell by kind: "37 tensors".
func (c *cell) count() string {
	counts := make([]uint64, unknownSpan+1)
	for i := range c.spans {
		counts[c.spans[i].kind]++
	}
	counts[paddingSpan] += counts[unknownSpan]
	var parts []string
	for kind, noun := range []string{tensorSpan: "tensor", sectionSpan: "section", paddingSpan: "gap"} {
		if counts[kind] > 0 {
			parts = append(parts, report.Counted(counts[kind], noun))
		}
	}
	return strings.Join(parts, ", ")
}

// name returns the name of a span as it is shown.
func (s *span) name() string {
	switch {
	case s.kind == sectionSpan:
		return s.section
	case s.kind == paddingSpan:
		return "padding"
	case s.kind == unknownSpan:
		return "belongs to nothing"
	}
	return cmp.Or(string(s.tensor.Name), `""`)
}

// extent returns size and offset of a span.
func (s span) extent() string {
	return report.Exactly(report.Size(s.size), s.size, 1024, " bytes") + " at offset " + report.Grouped(s.off)
}

// about describes a span, line by line.
func (s *span) about() []string {
	lines := []string{s.name()}
	if s.tensor != nil {
		lines = append(lines, s.typeAndShape())
	}
	if s.part != nil {
		lines = append(lines, s.part.String())
	}
	lines = append(lines, s.extent())
	if t := s.tensor; t != nil && t.Encoding != layout.Raw {
		lines = append(lines, fmt.Sprintf("%s, %s raw", t.Encoding, report.Size(t.Raw)))
	}
	if t := s.tensor; t != nil && t.Alias {
		lines = append(lines, "inside of another tensor")
	}
	return lines
}

// typeAndShape returns dtype and shape of a tensor.
func (s *span) typeAndShape() string {
	return s.tensor.DType.String() + " " + report.ShapeText(s.tensor.Shape)
}

// line describes a span on one line.
func (s *span) line() string {
	line := s.name()
	if s.tensor != nil {
		line += "  " + s.typeAndShape()
	}
	if s.part != nil {
		line += "  " + s.part.String()
	}
	return line + "  " + report.Size(s.size)
}

// labels names the cells whose name fits into them.
func (d *fileDrawing) labels() {
	for i := range d.f.cells {
		c := &d.f.cells[i]
		y := rowHeight/2 + 4.0
		if c.isBelow {
			y = 9.5
		}
		d.label(c, y)
	}
	for i := range d.f.above {
		d.label(&d.f.above[i], aboveTop+aboveHeight/2+4.0)
	}
}

// label writes a cell's name into its first segment that is wide enough for all of it, else
// into its widest.
func (d *fileDrawing) label(c *cell, below float64) {
	class, name := "l", c.spans[0].name()
	switch c.main().kind {
	case paddingSpan, unknownSpan:
		return // the pattern says what it is, and hides letters
	case sectionSpan:
		class = "l w"
	}
	if len(c.spans) > 1 {
		name = c.count()
	}
	name = terminal.Printable(name)
	const margin = 5
	var widest segment
	most := 0
	for _, s := range d.segments(c) {
		if n := int((s.width - 2*margin) / letter); n > most {
			widest, most = s, n
		}
		if most >= letters(name) {
			break
		}
	}
	if name = fitted(name, most); name != "" {
		d.text(class, widest.x+margin, widest.y+below, name)
	}
}

// fitted shortens name to most characters. It leaves out the word "weight", then the front up to
// a dot or slash. It returns nothing if too little would be left.
func fitted(name string, most int) string {
	if letters(name) <= most {
		return name
	}
	short := strings.TrimSuffix(name, ".weight")
	if letters(short) <= most {
		return short
	}
	for rest := short; ; {
		at := strings.IndexAny(rest, "./")
		if at < 0 {
			break
		}
		rest = rest[at+1:]
		if n := letters(rest); n > 2 && n+1 <= most {
			return "…" + rest
		}
	}
	const least = 12
	if most < least || letters(short) > utf8.RuneCountInString(short) {
		return ""
	}
	return terminal.Shorten(short, most)
}

// letters returns the width of s in letters. Characters that may be wider than one count twice.
func letters(s string) (n int) {
	for _, r := range s {
		if n++; r >= 0x300 && r != '…' {
			n++
		}
	}
	return n
}

// memory draws what is resident below the rows.
func (d *fileDrawing) memory() {
	for _, level := range []struct {
		presence
		class string
	}{{present, "m"}, {partly, "m y"}} {
		var path strings.Builder
		for _, s := range d.f.memory {
			if s.presence == level.presence {
				d.memoryBars(&path, s.off, s.end)
			}
		}
		if path.Len() > 0 {
			fmt.Fprintf(d.w, `<path class="%s" d="%s"/>`+"\n", level.class, path.String())
		}
	}
}

// memoryBars adds to path the bars for the bytes from off to end.
func (d *fileDrawing) memoryBars(path *strings.Builder, off, end uint64) {
	rowSize := d.rowSize
	for row := off / rowSize; row*rowSize < end; row++ {
		x := d.pixels(max(off, row*rowSize) - row*rowSize)
		until := d.pixels(min(end-row*rowSize, rowSize))
		fmt.Fprintf(path, "M%s %dh%sv%dh-%[3]sz", px(float64(d.left)+x), d.top+int(row)*rowPitch+memoryTop, px(until-x), memoryBar)
	}
}

// offset formats n bytes without loss, in the largest unit that takes two digits after the point.
func offset(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	unit := 0
	for unit < len(units)-1 && n >= 1<<(10*(unit+1)) && n%(1<<(10*(unit+1)-2)) == 0 {
		unit++
	}
	if n == 0 {
		return "0"
	}
	if unit == 0 {
		return report.Grouped(n) + " B"
	}
	return strconv.FormatFloat(float64(n)/float64(uint64(1)<<(10*unit)), 'f', -1, 64) + " " + units[unit]
}
