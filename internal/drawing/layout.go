// Package drawing draws where the bytes of a model are, as a picture.
package drawing

import (
	"bufio"
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

// Options say how a picture is drawn.
type Options struct {
	*Format
	Title    string
	Coloring *Coloring             // of tensors; nil for one by dtype
	NumberOf func(name string) int // of a tensor; cells say the number of their first tensor, for a page to find it. nil for none
	Resident bool                  // show what is in memory now, where the system tells
}

// picture has what is drawn of a model. w has the first error, which Flush returns.
type picture struct {
	*Options
	w       *bufio.Writer
	format  string // of the model
	bytes   uint64 // of all files
	tensors int    // wherever they lie
	rowSize uint64 // bytes in a row of the picture
	files   []fileMap

	dtypes   []report.Total // of tensors that lie in no other, the largest first; with a Coloring its kinds, in their order
	within   []report.Total // of tensors that lie in others; none with a Coloring
	fills    map[string]fill
	all      report.Total // of the tensors that lie in no other
	packed   []packedTotal
	sections []report.Total // by name
	padding  uint64
	unknown  uint64
	resident *uint64 // bytes in memory, if that is known
}

// packedTotal sums up the tensors stored in one encoding, and how large they are raw.
type packedTotal struct {
	report.Total
	encoding layout.Encoding
	raw      uint64
}

// fileMap has what is shown of one file, from its first byte to its last, in rows from top on.
type fileMap struct {
	*picture
	name    string
	size    uint64
	top     int
	tensors int
	cells   []cell
	above   []cell // tensors that lie inside others

	memory   []memoryRange // if it is known
	resident uint64
}

// rangeKind says what bytes are.
type rangeKind uint8

const (
	tensorRange  rangeKind = iota
	sectionRange           // header, metadata, …
	paddingRange           // fewer bytes than it takes to align what follows
	unknownRange           // others that nothing lays claim to
)

// rangeKinds has the class of each kind in a picture, a name for ranges without one of their own, and what they are counted as.
var rangeKinds = [...]struct{ class, name, noun string }{
	tensorRange:  {"", "", "tensor"},
	sectionRange: {"s", "", "section"},
	paddingRange: {"p", "padding", "gap"},
	unknownRange: {"x", "belongs to nothing", "gap"},
}

// fileRange is a range of bytes of a file: a tensor, a section or a gap.
type fileRange struct {
	kind      rangeKind
	off, size uint64
	tensor    *layout.Tensor // of a tensorRange
	part      *part          // of a quantized weight, if the tensor is one
	section   string         // of a sectionRange
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

// end returns the offset behind the range.
func (r *fileRange) end() uint64 { return r.off + r.size }

// cell has what is drawn as one: a range, or neighbours that are too small to be seen.
type cell struct {
	ranges  []fileRange
	isBelow bool // tensors of fileMap.above lie in it
}

// off returns the offset of the cell.
func (c *cell) off() uint64 { return c.ranges[0].off }

// end returns the end of the range that reaches farthest.
func (c *cell) end() (end uint64) {
	for i := range c.ranges {
		end = max(end, c.ranges[i].end())
	}
	return end
}

// newPicture returns what w is to have of m. It fails if what is in memory cannot be asked.
func newPicture(w *bufio.Writer, m *loader.Model, opts *Options) (*picture, error) {
	infos := m.Files()
	p := &picture{Options: opts, w: w, format: m.Format().String(), fills: make(map[string]fill)}
	if v := infos[0].Layout.Index().Version; v != "" {
		p.format += " " + v
	}
	parts := partsOf(m)
	p.sum(infos, parts)
	ranges, count := make([][]fileRange, len(infos)), 0
	for i, info := range infos {
		ranges[i] = rangesOf(info.Layout.Index(), parts)
		count += len(ranges[i])
	}
	p.sumSectionsAndGaps(ranges)
	p.rowSize = p.rowBytes(p.bytes, count)
	for i, info := range infos {
		p.files = append(p.files, p.newFileMap(info, ranges[i]))
	}
	if !opts.Resident {
		return p, nil
	}
	sum := uint64(0)
	for i := range p.files {
		f := &p.files[i]
		err := f.measure(p.rowSize, func(off, n uint64) (uint64, error) { return m.Resident(i, off, n) })
		if errors.Is(err, errors.ErrUnsupported) {
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		sum += f.resident
	}
	p.resident = &sum
	return p, nil
}

// sum adds up the tensors of all files, by dtype or by kinds of the Coloring, and finds fills for them. A quantized weight counts once, with
// the bytes of all parts.
func (p *picture) sum(infos []loader.FileInfo, parts map[string]*part) {
	outside, within := make(map[string]*report.Total), make(map[string]*report.Total)
	for _, info := range infos {
		tensors := info.Layout.Index().Tensors
		p.bytes, p.tensors = p.bytes+info.Size, p.tensors+len(tensors)
		for i := range tensors {
			t := &tensors[i]
			total, of := totalOf(t, nil), parts[string(t.Name)]
			if t.Encoding != layout.Raw {
				packed := report.FindOrAdd(&p.packed, packedTotal{encoding: t.Encoding}, func(p *packedTotal) bool { return p.encoding == t.Encoding })
				packed.Add(total)
				packed.raw += t.Raw
			}
			if t.Alias {
				report.AddTo(within, total)
				continue
			}
			total = totalOf(t, of)
			p.all.Add(total)
			if p.Coloring != nil {
				total.Kind = p.Coloring.Kinds[p.Coloring.Of(weightName(t, of))].Name
			}
			if p.Coloring == nil || t.Stored > 0 { // others are not drawn
				report.AddTo(outside, total)
			}
		}
	}
	if p.Coloring == nil {
		p.dtypes, p.within = report.LargestFirst(outside), report.LargestFirst(within)
		p.fills = fillsOf(p.dtypes, p.within)
		return
	}
	for i, k := range p.Coloring.Kinds {
		p.fills[k.Name] = fill(i)
		if sum := outside[k.Name]; sum != nil && sum.Tensors > 0 {
			p.dtypes = append(p.dtypes, *sum)
		}
	}
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

// sumSectionsAndGaps sets the sums of p over the ranges of all files that are no tensors: sections by name, padding and unknown bytes.
func (p *picture) sumSectionsAndGaps(files [][]fileRange) {
	at := make(map[string]int)
	for _, ranges := range files {
		for _, r := range ranges {
			switch r.kind {
			case paddingRange:
				p.padding += r.size
			case unknownRange:
				p.unknown += r.size
			case sectionRange:
				if _, ok := at[r.section]; !ok {
					at[r.section] = len(p.sections)
					p.sections = append(p.sections, report.Total{Kind: r.section})
				}
				p.sections[at[r.section]].Bytes += r.size
			}
		}
	}
}

// rangesOf divides a file into ranges that follow one another. A layout.Builder has checked that nothing overlaps.
func rangesOf(ix *layout.Index, parts map[string]*part) []fileRange {
	claimed := make([]fileRange, 0, len(ix.Sections)+len(ix.Tensors))
	for _, s := range ix.Sections {
		if s.Size > 0 {
			claimed = append(claimed, fileRange{kind: sectionRange, off: s.Offset, size: s.Size, section: s.Name})
		}
	}
	for i := range ix.Tensors {
		if t := &ix.Tensors[i]; !t.Alias && t.Stored > 0 {
			claimed = append(claimed, fileRange{off: t.Offset, size: t.Stored, tensor: t, part: parts[string(t.Name)]})
		}
	}
	slices.SortFunc(claimed, compareRanges)
	ranges, at := make([]fileRange, 0, len(claimed)+1), uint64(0)
	for _, r := range claimed {
		if at < r.off {
			ranges = append(ranges, gapRange(at, r.off))
		}
		ranges = append(ranges, r)
		at = r.end()
	}
	if at < ix.Size {
		ranges = append(ranges, gapRange(at, ix.Size))
	}
	return ranges
}

// compareRanges orders ranges by offset, the longest first.
func compareRanges(a, b fileRange) int {
	return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(b.size, a.size))
}

// gapRange returns the gap from off to end: padding, if an alignment of end up to 64 KiB explains its size, else unknown.
func gapRange(off, end uint64) fileRange {
	const most = 64 << 10
	r := fileRange{kind: unknownRange, off: off, size: end - off}
	if r.size < min(end&-end, most) {
		r.kind = paddingRange
	}
	return r
}

// rowBytes returns the number of bytes in a row: fewer if there is more to see. It is a power of
// two or one and a half of one, so that offsets are round numbers.
func (f *Format) rowBytes(bytes uint64, ranges int) uint64 {
	rows := uint64(min(max(f.fewest, ranges/f.rangesInRow), f.most))
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

// newFileMap returns what is shown of a file that is divided into ranges. Neighbours of less than leastWidth are one cell.
func (p *picture) newFileMap(info loader.FileInfo, ranges []fileRange) fileMap {
	ix, least := info.Layout.Index(), max(leastWidth*p.rowSize/uint64(p.width), 1)
	f := fileMap{picture: p, name: filepath.Base(info.Path), size: info.Size, tensors: len(ix.Tensors), cells: newCells(ranges, least), above: newCellsAbove(ix, least)}
	for _, c := range f.above {
		if at, _ := slices.BinarySearchFunc(f.cells, c.off()+1, func(c cell, off uint64) int { return cmp.Compare(c.off(), off) }); at > 0 {
			f.cells[at-1].isBelow = true
		}
	}
	return f
}

// rowCount returns how many rows the file has, one at least.
func (f *fileMap) rowCount() int {
	return int(max(f.size/f.rowSize+min(f.size%f.rowSize, 1), 1))
}

// newCells returns cells of ranges. Neighbours of less than least bytes share a cell, until it has as many. Padding
// of less between two large tensors has no cell.
func newCells(ranges []fileRange, least uint64) (cells []cell) {
	first, size := 0, uint64(0) // of the neighbours that are waiting; a size of 0 means none
	flush := func(end int) {
		if size > 0 {
			cells = append(cells, cell{ranges: ranges[first:end]})
		}
		first, size = end, 0
	}
	for i, r := range ranges {
		if r.size >= least {
			flush(i)
		} else if size == 0 && r.kind == paddingRange {
			first = i + 1
			continue
		}
		if size += r.size; size >= least {
			flush(i + 1)
		}
	}
	flush(len(ranges))
	return cells
}

// newCellsAbove returns cells of the tensors inside of others. Overlapping ones share a cell: each
// of them alone could be as large as the file.
func newCellsAbove(ix *layout.Index, least uint64) (cells []cell) {
	var ranges []fileRange
	for i := range ix.Tensors {
		if t := &ix.Tensors[i]; t.Alias && t.Stored > 0 {
			ranges = append(ranges, fileRange{off: t.Offset, size: t.Stored, tensor: t})
		}
	}
	slices.SortFunc(ranges, compareRanges)
	first, end := 0, uint64(0)
	for i, r := range ranges {
		small := r.size < least && end-ranges[first].off < least
		if i > 0 && r.off >= end && !(small && r.off-end < least) {
			cells = append(cells, cell{ranges: ranges[first:i]})
			first = i
		}
		end = max(end, r.end())
	}
	if len(ranges) > 0 {
		cells = append(cells, cell{ranges: ranges[first:]})
	}
	return cells
}

// memoryRange is a range of bytes from off to end that is in memory, wholly or in part.
type memoryRange struct {
	off, end uint64
	whole    bool
}

// binsInRow is the maximum number of ranges of a row that the system is asked about.
const binsInRow = 270

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
			f.memory = append(f.memory, memoryRange{off, off + n, whole})
		}
	}
	return nil
}
