// Package drawing draws where the bytes of a model are, as a picture.
package drawing

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/scheme"
)

// Map has what a picture of a model shows.
type Map struct {
	*Format
	title, format string
	bytes         uint64 // of all files
	tensors       int    // wherever they lie
	rowSize       uint64 // bytes in a row of the picture
	files         []fileMap

	dtypes   []report.Total // of tensors that lie in no other, the largest first
	within   []report.Total // of tensors that lie in others
	all      report.Total   // of the tensors in dtypes
	packed   []packedTotal
	sections []report.Total // by name
	padding  uint64
	unknown  uint64
	resident *uint64   // bytes in memory, if that is known
	coloring *Coloring // of tensors; nil for one by dtype
	numberOf func(name string) int
}

// packedTotal sums up the tensors stored in one encoding, and how large they are raw.
type packedTotal struct {
	report.Total
	encoding layout.Encoding
	raw      uint64
}

// fileMap has what is shown of one file, from its first byte to its last.
type fileMap struct {
	name    string
	size    uint64
	tensors int
	cells   []cell
	above   []cell // tensors that lie inside others

	memory   []memorySpan // if it is known
	resident uint64
}

// spanKind says what bytes are.
type spanKind uint8

const (
	tensorSpan  spanKind = iota
	sectionSpan          // header, metadata, …
	paddingSpan          // fewer bytes than it takes to align what follows
	unknownSpan          // others that nothing lays claim to
)

// spanKinds has the class of each kind in a picture, a name for spans without one of their own, and what they are counted as.
var spanKinds = [...]struct{ class, name, noun string }{
	tensorSpan:  {"", "", "tensor"},
	sectionSpan: {"s", "", "section"},
	paddingSpan: {"p", "padding", "gap"},
	unknownSpan: {"x", "belongs to nothing", "gap"},
}

// span is a range of bytes of a file: a tensor, a section or a gap.
type span struct {
	kind      spanKind
	off, size uint64
	tensor    *layout.Tensor // of a tensorSpan
	part      *part          // of a quantized weight, if the tensor is one
	section   string         // of a sectionSpan
}

// part is a tensor's place in a quantized weight.
type part struct {
	weight, scheme string
	role           scheme.Role
	elements       uint64 // of the weight, if the tensor is its codes
	shade          int    // of the weight
}

// String says what the tensor is to its weight: "scales of blk.0.attn_q.weight (awq)".
func (p *part) String() string { return fmt.Sprintf("%s of %s (%s)", p.role, p.weight, p.scheme) }

// partsOf returns the parts of quantized weights, by name of tensor.
func partsOf(m *loader.Model) map[string]*part {
	parts := make(map[string]*part)
	weights := 0
	for t := range m.Tensors() {
		list := t.Parts()
		weights += min(len(list), 1)
		for _, p := range list {
			of := &part{weight: t.Name(), scheme: t.Scheme().Scheme, role: p.Role, shade: weights % len(shades)}
			if p.Role == scheme.Codes {
				of.elements = t.Elements()
			}
			parts[p.Tensor.Name()] = of
		}
	}
	return parts
}

// end returns the offset behind the span.
func (s *span) end() uint64 { return s.off + s.size }

// cell has what is drawn as one: a span, or neighbours that are too small to be seen.
type cell struct {
	spans   []span
	isBelow bool // tensors of fileMap.above lie in it
}

// off returns the offset of the cell.
func (c *cell) off() uint64 { return c.spans[0].off }

// end returns the end of the span that reaches farthest.
func (c *cell) end() (end uint64) {
	for i := range c.spans {
		end = max(end, c.spans[i].end())
	}
	return end
}

// New returns the map of m, called title, in a format. Measure adds what is in memory.
func New(m *loader.Model, title string, format *Format) *Map {
	infos := m.Files()
	mm := &Map{Format: format, title: title, format: m.Format().String()}
	if v := infos[0].Layout.Index().Version; v != "" {
		mm.format += " " + v
	}
	parts := partsOf(m)
	mm.sum(infos, parts)
	spans, count := make([][]span, len(infos)), 0
	for i, info := range infos {
		spans[i] = fileSpans(info.Layout.Index(), parts)
		count += len(spans[i])
	}
	mm.sumSectionsAndGaps(spans)
	mm.rowSize = mm.rowBytes(mm.bytes, count)
	for i, info := range infos {
		mm.files = append(mm.files, newFileMap(info, spans[i], max(leastWidth*mm.rowSize/uint64(mm.width), 1)))
	}
	return mm
}

// Number makes the picture's cells say the number of their first tensor, by its name, for a page to find it.
func (mm *Map) Number(of func(name string) int) { mm.numberOf = of }

// sum adds up the tensors of all files. A quantized weight counts once, with the bytes of all parts.
func (mm *Map) sum(infos []loader.FileInfo, parts map[string]*part) {
	outside, within := make(map[string]*report.Total), make(map[string]*report.Total)
	for _, info := range infos {
		tensors := info.Layout.Index().Tensors
		mm.bytes, mm.tensors = mm.bytes+info.Size, mm.tensors+len(tensors)
		for i := range tensors {
			t := &tensors[i]
			if t.Alias {
				report.AddTo(within, totalOf(t, nil))
			} else {
				total := totalOf(t, parts[string(t.Name)])
				report.AddTo(outside, total)
				mm.all.Add(total)
			}
			if t.Encoding != layout.Raw {
				p := report.FindOrAdd(&mm.packed, packedTotal{encoding: t.Encoding}, func(p *packedTotal) bool { return p.encoding == t.Encoding })
				p.Add(totalOf(t, nil))
				p.raw += t.Raw
			}
		}
	}
	mm.dtypes, mm.within = report.LargestFirst(outside), report.LargestFirst(within)
}

// totalOf returns what t adds to the sum of its kind. If it is a part of a quantized weight, the codes count as one tensor, and other parts
// add their bytes only.
func totalOf(t *layout.Tensor, p *part) report.Total {
	switch {
	case p == nil:
		return report.Total{Kind: t.DType.String(), Tensors: 1, Elements: t.Elements(), Bytes: t.Stored}
	case p.role == scheme.Codes:
		return report.Total{Kind: p.scheme, Tensors: 1, Elements: p.elements, Bytes: t.Stored}
	}
	return report.Total{Kind: p.scheme, Bytes: t.Stored}
}

// sumSectionsAndGaps sets the sums of mm over the spans of all files that are no tensors: sections by name, padding and unknown bytes.
func (mm *Map) sumSectionsAndGaps(files [][]span) {
	at := make(map[string]int)
	for _, spans := range files {
		for _, s := range spans {
			switch s.kind {
			case paddingSpan:
				mm.padding += s.size
			case unknownSpan:
				mm.unknown += s.size
			case sectionSpan:
				if _, ok := at[s.section]; !ok {
					at[s.section] = len(mm.sections)
					mm.sections = append(mm.sections, report.Total{Kind: s.section})
				}
				mm.sections[at[s.section]].Bytes += s.size
			}
		}
	}
}

// fileSpans divides a file into spans that follow one another. A layout.Builder has checked that nothing overlaps.
func fileSpans(ix *layout.Index, parts map[string]*part) []span {
	claimed := make([]span, 0, len(ix.Sections)+len(ix.Tensors))
	for _, s := range ix.Sections {
		if s.Size > 0 {
			claimed = append(claimed, span{kind: sectionSpan, off: s.Offset, size: s.Size, section: s.Name})
		}
	}
	for i := range ix.Tensors {
		if t := &ix.Tensors[i]; !t.Alias && t.Stored > 0 {
			claimed = append(claimed, span{off: t.Offset, size: t.Stored, tensor: t, part: parts[string(t.Name)]})
		}
	}
	slices.SortFunc(claimed, compareSpans)
	spans, at := make([]span, 0, len(claimed)+1), uint64(0)
	for _, s := range claimed {
		if at < s.off {
			spans = append(spans, gapSpan(at, s.off))
		}
		spans = append(spans, s)
		at = s.end()
	}
	if at < ix.Size {
		spans = append(spans, gapSpan(at, ix.Size))
	}
	return spans
}

// compareSpans orders spans by offset, the longest first.
func compareSpans(a, b span) int {
	return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(b.size, a.size))
}

// gapSpan returns the gap from off to end: padding, if an alignment of end up to 64 KiB explains its size, else unknown.
func gapSpan(off, end uint64) span {
	const most = 64 << 10
	s := span{kind: unknownSpan, off: off, size: end - off}
	if s.size < min(end&-end, most) {
		s.kind = paddingSpan
	}
	return s
}

// rowBytes returns the number of bytes in a row: fewer if there is more to see. It is a power of
// two or one and a half of one, so that offsets are round numbers.
func (f *Format) rowBytes(bytes uint64, spans int) uint64 {
	rows := uint64(min(max(f.fewest, spans/f.spansInRow), f.most))
	want := bytes/rows + min(bytes%rows, 1)
	for size := uint64(16); ; size *= 2 {
		switch {
		case size >= want:
			return size
		case size+size/2 >= want:
			return size + size/2
		}
	}
}

// newFileMap returns what is shown of a file that is divided into spans. Neighbours of less than least bytes are one cell.
func newFileMap(info loader.FileInfo, spans []span, least uint64) fileMap {
	ix := info.Layout.Index()
	f := fileMap{name: filepath.Base(info.Path), size: info.Size, tensors: len(ix.Tensors), cells: newCells(spans, least), above: newCellsAbove(ix, least)}
	for _, c := range f.above {
		if at, _ := slices.BinarySearchFunc(f.cells, c.off()+1, func(c cell, off uint64) int { return cmp.Compare(c.off(), off) }); at > 0 {
			f.cells[at-1].isBelow = true
		}
	}
	return f
}

// rows returns how many rows of rowSize bytes the file has, one at least.
func (f *fileMap) rows(rowSize uint64) int {
	return int(max(f.size/rowSize+min(f.size%rowSize, 1), 1))
}

// newCells returns cells of spans. Neighbours of less than least bytes share a cell, until it has as many. Padding
// of less between two large tensors has no cell.
func newCells(spans []span, least uint64) (cells []cell) {
	first, size := 0, uint64(0) // of the neighbours that are waiting; a size of 0 means none
	flush := func(end int) {
		if size > 0 {
			cells = append(cells, cell{spans: spans[first:end]})
		}
		first, size = end, 0
	}
	for i, s := range spans {
		if s.size >= least {
			flush(i)
		} else if size == 0 && s.kind == paddingSpan {
			first = i + 1
			continue
		}
		if size += s.size; size >= least {
			flush(i + 1)
		}
	}
	flush(len(spans))
	return cells
}

// newCellsAbove returns cells of the tensors inside of others. Overlapping ones share a cell: each
// of them alone could be as large as the file.
func newCellsAbove(ix *layout.Index, least uint64) (cells []cell) {
	var spans []span
	for i := range ix.Tensors {
		if t := &ix.Tensors[i]; t.Alias && t.Stored > 0 {
			spans = append(spans, span{off: t.Offset, size: t.Stored, tensor: t})
		}
	}
	slices.SortFunc(spans, compareSpans)
	first, end := 0, uint64(0)
	for i, s := range spans {
		small := s.size < least && end-spans[first].off < least
		if i > 0 && s.off >= end && !(small && s.off-end < least) {
			cells = append(cells, cell{spans: spans[first:i]})
			first = i
		}
		end = max(end, s.end())
	}
	if len(spans) > 0 {
		cells = append(cells, cell{spans: spans[first:]})
	}
	return cells
}

// memorySpan is a range of bytes from off to end that is in memory, wholly or in part.
type memorySpan struct {
	off, end uint64
	whole    bool
}

// binsInRow is the maximum number of ranges of a row that the system is asked about.
const binsInRow = 270

// Measure sets what is in memory now. Where the system does not tell, it does nothing.
func (mm *Map) Measure(m *loader.Model) error {
	sum := uint64(0)
	for i := range mm.files {
		f := &mm.files[i]
		err := f.measure(mm.rowSize, func(off, n uint64) (uint64, error) { return m.Resident(i, off, n) })
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		sum += f.resident
	}
	mm.resident = &sum
	return nil
}

// measure sets memory and resident of f: it calls resident, which counts the bytes in memory of a range, with one range after
// the other. It fails if resident does.
func (f *fileMap) measure(rowSize uint64, resident func(off, n uint64) (uint64, error)) error {
	step := max(rowSize/binsInRow, 1)
	for off := uint64(0); off < f.size; off += step {
		n := min(step, f.size-off)
		count, err := resident(off, n)
		if err != nil {
			return err
		}
		f.resident += count
		switch last, whole := len(f.memory)-1, count == n; {
		case count == 0:
		case last >= 0 && f.memory[last].end == off && f.memory[last].whole == whole:
			f.memory[last].end += n // equal neighbours are one
		default:
			f.memory = append(f.memory, memorySpan{off, off + n, whole})
		}
	}
	return nil
}
