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

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// The picture's measures, in pixels.
const (
	rowHeight = 28
	rowSpace  = 37 // with what is in memory, and space to the next
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

var (
	// mapStyle has colours for light and dark screens. Viewers without media queries show the light ones.
	// Selectors begin with svg, so that they do not match a page around the picture.
	//go:embed picture.css
	mapStyle string
	// mapPatterns define how padding, gaps and compressed tensors look.
	//go:embed patterns.svg
	mapPatterns string
)

// Format is how wide a picture is, and how many rows it has.
type Format struct {
	left, width, right        int // of rows, in pixels, and what is free next to them
	fewest, most, rangesInRow int // rows, and what a row should show
	caption                   int // letters of a file's name
}

// The formats: for windows and pages, and for phones, which leave the legend to their page.
var (
	Wide   = &Format{left: 96, width: 1080, right: 24, fewest: 8, most: 48, rangesInRow: 40, caption: 90}
	Narrow = &Format{left: 68, width: 286, right: 4, fewest: 16, most: 64, rangesInRow: 16, caption: 20}
)

// WriteSVG writes a picture of where the bytes of m are. It fails, and writes nothing, if what is in memory cannot be asked. Errors of
// writing are the errors of w.Flush.
func WriteSVG(w *bufio.Writer, m *loader.Model, opts *Options) error {
	p, err := newPicture(w, m, opts)
	if err != nil {
		return err
	}
	width, height := p.left+p.width+p.right, legendTop+(max(len(p.dtypes)+len(p.within), len(p.otherRows()))+1)*legendPitch
	for i := range p.files {
		f := &p.files[i]
		f.top = height + p.captionHeight()
		height = f.top + f.rowCount()*p.rowPitch()
	}
	height += bottom
	fmt.Fprintf(w, xml.Header+`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%d" role="img">`+"\n", width, height, height)
	fmt.Fprintf(w, "<title>%s</title>\n<desc>%s</desc>\n", escaped("Map of "+p.Title), escaped(p.about()))
	p.styles()
	fmt.Fprintf(w, `<rect class="bg" width="%d" height="%d"/>`+"\n", width, height)
	p.legend()
	for i := range p.files {
		p.files[i].draw()
	}
	w.WriteString("</svg>\n")
	return nil
}

// styles writes the colour of each kind of tensors in the picture, and the patterns that colours refer to.
func (p *picture) styles() {
	patterns := mapPatterns
	p.w.WriteString("<style>" + mapStyle)
	for _, f := range slices.Sorted(maps.Values(p.fills)) {
		styles, pattern := p.stylesOf(f)
		p.w.WriteString(styles)
		patterns += pattern
	}
	for i, opacity := range shades[1:] {
		fmt.Fprintf(p.w, "svg .v%d{fill-opacity:%s}", i+1, opacity)
	}
	p.w.WriteString("</style>\n<defs>\n" + patterns + "</defs>\n")
}

// text writes the line s at x and y. class is "" or one or several classes, which say how x is meant.
func (p *picture) text(class string, x, y float64, s string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	fmt.Fprintf(p.w, `<text%s x="%s" y="%s">%s</text>`+"\n", class, px(x), px(y), escaped(s))
}

// px formats a length in pixels with at most two digits after the point.
func px(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(f, 'f', 2, 64), "0"), ".")
}

// escaped returns s as text of XML. XML has no escape for some characters; Printable replaces them.
func escaped(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(report.Printable(s)))
	return b.String()
}

// captionHeight returns the height of a file's caption. A file alone has none: the legend names it.
func (p *picture) captionHeight() int {
	if len(p.files) == 1 {
		return 0
	}
	return captionHeight
}

// caption writes the name of a file, its size and number of tensors and, if that is known, the share in memory.
func (f *fileMap) caption() {
	about := report.Size(f.size)
	if f.tensors > 0 {
		about += " · " + report.Counted(f.tensors, "tensor")
	}
	if f.picture.resident != nil {
		about += " · " + report.Share(f.resident, f.size) + " in memory"
	}
	y := float64(f.top - 9)
	f.text("b", float64(f.left), y, report.Shorten(report.Printable(f.name), f.Format.caption))
	f.text("q e", float64(f.left+f.width), y, about)
}

// draw draws caption, rows, cells, labels and memory.
func (f *fileMap) draw() {
	if f.captionHeight() > 0 {
		f.caption()
	}
	f.rows()
	// Ranges thinner than a hairline lie upon their neighbours.
	for _, hairlines := range []bool{false, true} {
		for i := range f.cells {
			c := &f.cells[i]
			if isHairline := c.end()-c.off() < leastWidth*f.rowSize/uint64(f.width); isHairline == hairlines {
				f.cell(c, 0, rowHeight, "")
			}
		}
	}
	for i := range f.above {
		f.cell(&f.above[i], aboveTop, aboveHeight, " a")
	}
	for i := range f.cells {
		c, y := &f.cells[i], rowHeight/2+4.0
		if c.isBelow {
			y = 9.5
		}
		f.label(c, y)
	}
	for i := range f.above {
		f.label(&f.above[i], aboveTop+aboveHeight/2+4.0)
	}
	f.brackets()
	f.memoryBars()
}

// rows draws the background of each row, and its offset.
func (f *fileMap) rows() {
	for row := range uint64(f.rowCount()) {
		y := f.rowTop(row)
		off := row * f.rowSize
		f.text("g", float64(f.left-8), float64(y)+rowHeight/2+3.5, exactSize(off))
		width := f.pixels(min(f.size-off, f.rowSize))
		fmt.Fprintf(f.w, `<rect class="row" x="%d" y="%d" width="%s" height="%d"/>`+"\n", f.left, y, px(max(width, hairline)), rowHeight)
	}
}

// rowTop returns the y of a row.
func (f *fileMap) rowTop(row uint64) int {
	return f.top + int(row)*f.rowPitch() + f.bracketHeight()
}

// rowPitch returns the distance from row to row.
func (p *picture) rowPitch() int { return rowSpace + p.bracketHeight() }

// pixels returns the width of n bytes in a row.
func (f *fileMap) pixels(n uint64) float64 {
	return float64(n) / float64(f.rowSize) * float64(f.width)
}

// segment is the rectangle of a cell in one row, in pixels.
type segment struct{ x, y, width float64 }

// rowRange is a range of bytes in one row, from and upto from its first byte on.
type rowRange struct{ row, from, upto uint64 }

// rowRanges returns the bytes from off to end as a range for each row that they reach into.
func (p *picture) rowRanges(off, end uint64) (list []rowRange) {
	for row := off / p.rowSize; row*p.rowSize < end; row++ {
		first := row * p.rowSize
		list = append(list, rowRange{row, max(off, first) - first, min(end-first, p.rowSize)})
	}
	return list
}

// segments returns the rectangles of the bytes from off to end, one for each row that they reach into. None is narrower than a hairline.
func (f *fileMap) segments(off, end uint64) (list []segment) {
	for _, r := range f.rowRanges(off, end) {
		x, width := f.pixels(r.from), f.pixels(r.upto-r.from)
		if width > 4 && r.upto < f.rowSize {
			width-- // a line between neighbours
		}
		width = max(width, hairline)
		x = min(x, float64(f.width)-width)
		list = append(list, segment{float64(f.left) + x, float64(f.rowTop(r.row)), width})
	}
	return list
}

// cell draws c as rectangles of this height, a rectangle in each row that c reaches into. Their top lies below pixels under
// the top of the row. class is added to the class of c. A tensor that is not raw has a hatch.
func (f *fileMap) cell(c *cell, below, height int, class string) {
	var path strings.Builder
	for _, s := range f.segments(c.off(), c.end()) {
		fmt.Fprintf(&path, "M%s %sh%sv%dh-%[3]sz", px(s.x), px(s.y+float64(below)), px(s.width), height)
	}
	fmt.Fprintf(f.w, `<path class="c %s%s"%s d="%s"><title>%s</title></path>`+"\n", f.class(c), class, f.number(c), path.String(), f.aboutCell(c))
	if r := c.largest(); r.tensor != nil && r.tensor.Encoding != layout.Raw {
		fmt.Fprintf(f.w, `<path class="k" d="%s"/>`+"\n", path.String())
	}
}

// number returns the attribute data-t, with the number of the first tensor of a cell, or "" if there is none.
func (f *fileMap) number(c *cell) string {
	for _, r := range c.ranges {
		if r.tensor != nil && f.NumberOf != nil {
			return fmt.Sprintf(` data-t="%d"`, f.NumberOf(weightName(r.tensor, r.part)))
		}
	}
	return ""
}

// largest returns the largest range of a cell, or the first of several.
func (c *cell) largest() fileRange {
	return slices.MaxFunc(c.ranges, func(a, b fileRange) int { return cmp.Compare(a.size, b.size) })
}

// class returns the class of a cell, which is the class of its largest range.
func (f *fileMap) class(c *cell) string {
	r := c.largest()
	if r.tensor == nil {
		return rangeKinds[r.kind].class
	}
	class := f.fills[f.kindOf(&r)].class()
	if r.part != nil && r.part.shade > 0 { // it has the colour of its weight
		class += " v" + strconv.Itoa(r.part.shade)
	}
	return class
}

// aboutCell returns the text of a cell under the pointer, as XML.
func (f *fileMap) aboutCell(c *cell) string {
	if len(c.ranges) == 1 {
		return escapedLines(c.ranges[0].about())
	}
	const listed = 12
	lines := []string{c.kindCounts(), fileRange{off: c.off(), size: c.end() - c.off()}.extent()}
	for _, r := range c.ranges[:min(len(c.ranges), listed)] {
		lines = append(lines, strings.Join(append(r.head(), report.Size(r.size)), "  "))
	}
	if more := len(c.ranges) - listed; more > 0 {
		lines = append(lines, fmt.Sprintf("… and %s more", report.Grouped(more)))
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

// kindCounts returns as text how many ranges of each kind the cell has: "37 tensors, 2 gaps".
func (c *cell) kindCounts() string {
	var counts []string
	for _, noun := range []string{"tensor", "section", "gap"} {
		n := uint64(0)
		for _, r := range c.ranges {
			if rangeKinds[r.kind].noun == noun {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, report.Counted(n, noun))
		}
	}
	return strings.Join(counts, ", ")
}

// name returns the name of a range as it is shown.
func (r *fileRange) name() string {
	if r.tensor != nil {
		return cmp.Or(string(r.tensor.Name), `""`)
	}
	return rangeKinds[r.kind].name + r.section
}

// extent returns size and offset of a range.
func (r fileRange) extent() string {
	return report.Exactly(report.Size(r.size), r.size, 1024, " bytes") + " at offset " + report.Grouped(r.off)
}

// head returns texts that describe a range: its name, dtype and shape, and what it is to a weight.
func (r *fileRange) head() []string {
	texts := []string{r.name()}
	if r.tensor != nil {
		texts = append(texts, r.tensor.DType.String()+" "+report.ShapeText(r.tensor.Shape))
	}
	if r.part != nil {
		texts = append(texts, r.part.String())
	}
	return texts
}

// about returns lines that describe a range: its head, place and size.
func (r *fileRange) about() []string {
	lines, t := append(r.head(), r.extent()), r.tensor
	if t != nil && t.Encoding != layout.Raw {
		lines = append(lines, fmt.Sprintf("%s, %s raw", t.Encoding, report.Size(t.Raw)))
	}
	if t != nil && t.Alias {
		lines = append(lines, "inside of another tensor")
	}
	return lines
}

// label writes the name of a cell into its first segment that is wide enough for all of it, else shortened into its widest.
// The base line lies below pixels under the top of the row. Padding and unknown bytes have no label.
func (f *fileMap) label(c *cell, below float64) {
	class, name, end := "l", c.ranges[0].name(), ""
	switch c.largest().kind {
	case paddingRange, unknownRange:
		return // the pattern says what it is, and hides letters
	case sectionRange:
		class = "l w"
	}
	switch {
	case len(c.ranges) > 1:
		name = c.kindCounts()
	case c.ranges[0].tensor != nil && f.Coloring != nil && f.Coloring.Label != nil:
		name, end = f.Coloring.Label(weightName(c.ranges[0].tensor, c.ranges[0].part))
	}
	if r := c.largest(); r.tensor != nil && f.Coloring != nil {
		class = fmt.Sprintf("l t%d", f.fills[f.kindOf(&r)])
	}
	name = report.Printable(name)
	const margin = 4
	var widest segment
	most := 0
	for _, s := range f.segments(c.off(), c.end()) {
		if n := int((s.width - 2*margin) / letter); n > most {
			widest, most = s, n
		}
		if most >= widthInLetters(name) {
			break
		}
	}
	if name = shortenLabel(name, report.Printable(end), most); name != "" {
		f.text(class, widest.x+margin, widest.y+below, name)
	}
}

// shortenLabel returns name, shortened if it is wider than limit letters. It leaves out the word "weight", then the front up to
// a dot or slash, but for end, then the middle. It returns "" if too little would be left.
func shortenLabel(name, end string, limit int) string {
	if widthInLetters(name) <= limit {
		return name
	}
	short := strings.TrimSuffix(name, ".weight")
	if widthInLetters(short) <= limit {
		return short
	}
	for rest := short; ; {
		at := strings.IndexAny(rest, "./")
		if at < 0 {
			break
		}
		if rest = rest[at+1:]; len(rest) < len(strings.TrimSuffix(end, ".weight")) {
			break
		}
		if n := widthInLetters(rest); n > 2 && n+1 <= limit {
			return "…" + rest
		}
	}
	const least = 12
	if limit < least || widthInLetters(short) > utf8.RuneCountInString(short) {
		return ""
	}
	return report.Shorten(short, limit)
}

// widthInLetters returns the width of s, in widths of a letter. Characters that may be wider count twice.
func widthInLetters(s string) (n int) {
	for _, r := range s {
		if n++; r >= 0x300 && r != '…' {
			n++
		}
	}
	return n
}

// memoryBars draws bars below the rows for the ranges that are in memory, in another class for ranges that are there in part.
func (f *fileMap) memoryBars() {
	var whole, partly strings.Builder
	for _, s := range f.memory {
		path := &partly
		if s.whole {
			path = &whole
		}
		for _, r := range f.rowRanges(s.off, s.end) {
			x, until := f.pixels(r.from), f.pixels(r.upto)
			fmt.Fprintf(path, "M%s %dh%sv%dh-%[3]sz", px(float64(f.left)+x), f.rowTop(r.row)+memoryTop, px(until-x), memoryBar)
		}
	}
	if whole.Len() > 0 {
		fmt.Fprintf(f.w, `<path class="m" d="%s"/>`+"\n", whole.String())
	}
	if partly.Len() > 0 {
		fmt.Fprintf(f.w, `<path class="m y" d="%s"/>`+"\n", partly.String())
	}
}

// exactSize formats n bytes in the largest unit in which three digits after the point say it exactly: "1.25 MiB".
func exactSize(n uint64) string {
	const units = "KMGTPE"
	unit := 0
	for unit < len(units) && n >= 1<<(10*(unit+1)) && n%(1<<(10*(unit+1)-3)) == 0 {
		unit++
	}
	switch {
	case n == 0:
		return "0"
	case unit == 0:
		return report.Grouped(n) + " B"
	}
	return strconv.FormatFloat(float64(n)/float64(uint64(1)<<(10*unit)), 'f', -1, 64) + " " + units[unit-1:unit] + "iB"
}
