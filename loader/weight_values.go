package loader

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/scheme"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/mmapio"
)

// entries returns how many scales all elements have.
func (t Tensor) entries(g *dequant.Grouped) uint64 {
	_, n := g.Scales(0, t.Elements())
	return n
}

// scaling is what the codes of a run of elements need.
type scaling struct {
	scales, offsets []float32
	from            uint64  // the scale that scales begins with
	groupOf         []int32 // of each column, or nil
}

// scratch is memory for a run.
type scratch struct {
	codes  []byte
	floats []float32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// mostScratch bounds the memory, in bytes, that is kept for the next run.
const mostScratch = 1 << 20

func (s *scratch) free() {
	if cap(s.codes)+4*cap(s.floats) <= mostScratch {
		scratches.Put(s)
	}
}

// grown returns a slice of length n, which is s if that has room.
func grown[T any](s []T, n uint64) []T {
	if n <= uint64(cap(s)) {
		return s[:n]
	}
	return make([]T, n)
}

// expandWeight makes values of n elements of a logical tensor from element first on. It reads the codes
// that hold them and the scales of these.
func (t Tensor) expandWeight(to mmapio.Destination[float32], first, n uint64) error {
	if n == 0 {
		return nil
	}
	form := t.Scheme()
	if form.Code == layout.CodeBlocks {
		return t.expandBlocks(to, first, n)
	}
	if w := t.remembered(); !w.checked.Load() {
		if err := t.checkContents(); err != nil {
			return err
		}
		w.checked.Store(true)
	}
	g := dequant.Grouped(form.Grouped)
	codes := t.codes()
	all, inMemory, err := codes.wholeCodes(&g, first, n)
	if err != nil {
		return codes.wrap(err)
	}
	s, whole, err := t.wholeScales(&g, first, n, inMemory)
	if err != nil {
		return err
	}
	step := uint64(farStep)
	switch {
	case inMemory && whole:
		step = n
	case codes.file.access() == bySystem:
		step = readStep
	}
	mem := scratches.Get().(*scratch)
	defer mem.free()
	for end := first + n; first < end; {
		dst := to.Room(first, min(step, end-first))
		off, size := g.Codes(first, uint64(len(dst)))
		var src []byte
		switch {
		case all != nil:
			src = all[off:][:size]
		case inMemory:
			src, err = codes.file.content.SliceContext(codes.ctx(), codes.desc.Offset+off, size)
		default:
			mem.codes = grown(mem.codes, size)
			src, err = mem.codes, codes.readAt(mem.codes, off)
		}
		if err != nil {
			return codes.wrap(err)
		}
		if !whole {
			if s, err = t.someScales(&g, mem, first, uint64(len(dst))); err != nil {
				return err
			}
		}
		g.Permuted = s.groupOf != nil
		from, count := g.Scales(first, uint64(len(dst)))
		p := dequant.Parts{Codes: src, Scales: s.scales[from-s.from:][:count], Offsets: s.offsets, GroupOf: s.groupOf}
		if len(p.Offsets) > 1 {
			p.Offsets = p.Offsets[from-s.from:][:count]
		}
		if err := to.Filled(first, dst, mmapio.Guard(func() error { return g.Expand(dst, p, first, dequant.AllCores) })); err != nil {
			return err
		}
		first += uint64(len(dst))
	}
	return nil
}

// wholeCodes returns all codes if the cache has them, or if a part of them costs as much as all. inMemory reports whether
// they need no reading.
func (t Tensor) wholeCodes(g *dequant.Grouped, first, n uint64) (all []byte, inMemory bool, err error) {
	if t.inPlace() {
		return nil, true, nil
	}
	if all, inMemory, err = t.cached(); err != nil || inMemory || g.Dense(first, n) {
		return all, inMemory, err
	}
	b, err := t.kept(t.ctx(), cache.Elements, Tensor.copyElements)
	if err != nil {
		return nil, false, err
	}
	return b.Bytes, true, nil
}

// expandBlocks makes values of blocks, which hold scales of their own, with one more for each matrix.
func (t Tensor) expandBlocks(to mmapio.Destination[float32], first, n uint64) error {
	w := t.Scheme()
	by, err := t.constants()
	if err != nil {
		return err
	}
	codes := t.codes()
	c, err := codes.codec()
	if err != nil {
		return codes.wrap(err)
	}
	matrix := w.Rows * w.Cols
	for end := first + n; first < end; {
		dst := to.Room(first, min(farStep, end-first, matrix-first%matrix))
		err := codes.expand(c, mmapio.Into(dst, first), first, uint64(len(dst)))
		if err == nil {
			scale := by.Floats[first/matrix]
			for i := range dst {
				dst[i] *= scale
			}
		}
		if err := to.Filled(first, dst, err); err != nil {
			return codes.wrap(err)
		}
		first += uint64(len(dst))
	}
	return nil
}

// wholeScales returns all scales of the weight, which the cache keeps. whole is false if the caller should
// read those of elements [first, first+n) only. All are read if a range's scales cannot be read
// alone, or once ranges have read as many as there are.
func (t Tensor) wholeScales(g *dequant.Grouped, first, n uint64, inMemory bool) (s scaling, whole bool, err error) {
	key := cache.Key{Tensor: t.desc, Kind: cache.Scales}
	b, ok := t.file.model.cache.Peek(key, t.pins())
	if !ok {
		if t.scalesApart() {
			scale, _ := t.partOf(scheme.Scale)
			if scale.inPlace() {
				return s, false, nil
			}
			_, count := g.Scales(first, n)
			if asked := t.remembered().asked.Add(count); asked <= t.entries(g) && n < t.Elements() {
				return s, false, nil
			}
		}
		if b, err = t.kept(t.ctx(), cache.Scales, Tensor.makeScales); err != nil {
			return s, false, err
		}
	}
	entries := t.entries(g)
	s = scaling{scales: b.Floats[:entries], offsets: b.Floats[entries:], groupOf: b.Ints}
	if len(s.groupOf) == 0 {
		s.groupOf = nil
	}
	return s, true, nil
}

// scalesApart reports whether the scales of a range can be read without the others.
func (t Tensor) scalesApart() bool {
	w := t.inScheme()
	_, indexed := w.Part(scheme.GroupIndex)
	return !indexed && t.scalesInOrder()
}

// someScales returns the scales of n elements from element first on.
func (t Tensor) someScales(g *dequant.Grouped, mem *scratch, first, n uint64) (scaling, error) {
	from, count := g.Scales(first, n)
	mem.floats = grown(mem.floats, 2*count+1)
	return t.readScales(mem.floats, from, count)
}

// readScales reads so many scales and offsets into mem, from scale from on.
func (t Tensor) readScales(mem []float32, from, count uint64) (scaling, error) {
	w := t.Scheme()
	s := scaling{scales: mem[:count:count], from: from}
	if err := t.effective(s.scales, from, mem[count:]); err != nil { // offsets overwrite the room
		return s, err
	}
	switch {
	case w.Zero == scheme.Direct:
		s.offsets = mem[count:][:count]
		role := scheme.ZeroPoint
		if w.Bias {
			role = scheme.Bias
		}
		if err := t.floats(role, layout.Invalid, s.offsets, from); err != nil {
			return s, err
		}
		if w.CodeOffset != 0 {
			for i := range s.offsets {
				s.offsets[i] += w.CodeOffset
			}
		}
	case w.CodeOffset != 0:
		s.offsets = mem[count:][:1]
		s.offsets[0] = w.CodeOffset
	}
	return s, nil
}

// partOf returns the part of a logical tensor that has a role.
func (t Tensor) partOf(r scheme.Role) (part Tensor, ok bool) {
	w := t.inScheme()
	i, ok := w.Part(r)
	if !ok {
		return Tensor{}, false
	}
	return t.part(i), true
}

// floats reads elements of a part from element first on, of type d or, if d is Invalid, of the part's.
func (t Tensor) floats(r scheme.Role, d layout.DType, dst []float32, first uint64) error {
	part, _ := t.partOf(r)
	c, err := dequant.NewCodec(cmp.Or(d, part.desc.DType), layout.Quant{}, false)
	if err == nil {
		err = part.expand(c, mmapio.Into(dst, first), first, uint64(len(dst)))
	}
	return part.wrap(err)
}

// effective reads the scales that codes are multiplied by, from scale from on. Scales of scales are
// applied. It may overwrite room.
func (t Tensor) effective(dst []float32, from uint64, room []float32) error {
	w := t.Scheme()
	if err := t.floats(scheme.Scale, w.ScaleType, dst, from); err != nil {
		return err
	}
	if w.Reciprocal {
		for i, s := range dst {
			dst[i] = 1 / s
		}
	}
	if w.Scale != scheme.Nested && w.Global == scheme.NoGlobal {
		return nil
	}
	b, err := t.constants()
	if err != nil {
		return err
	}
	if w.Scale == scheme.Nested {
		return t.unnest(dst, from, b.Floats, room)
	}
	g := dequant.Grouped(w.Grouped)
	_, each := g.Scales(0, w.Rows*w.Cols) // of a matrix
	for i := range dst {
		by := b.Floats[0]
		if len(b.Floats) > 1 {
			by = b.Floats[(from+uint64(i))/each]
		}
		if w.Global == scheme.Divides {
			dst[i] /= by
		} else {
			dst[i] *= by
		}
	}
	return nil
}

// unnest makes scales of their codes, in dst, from scale from on. Every NestedBlock of them share a
// scale.
func (t Tensor) unnest(dst []float32, from uint64, table, room []float32) error {
	w := t.Scheme()
	lo := from / w.NestedBlock
	scales := grown(room, (from+uint64(len(dst))-1)/w.NestedBlock+1-lo)
	if err := t.floats(scheme.NestedScale, layout.Invalid, scales, lo); err != nil {
		return err
	}
	for i := range dst {
		product := table[uint8(dst[i])] * scales[(from+uint64(i))/w.NestedBlock-lo]
		dst[i] = product + w.NestedOffset
	}
	return nil
}

// constants returns what all scales of the weight share: scales of scales, or the values of their codes.
func (t Tensor) constants() (cache.Buffer, error) {
	return t.kept(t.ctx(), cache.Constants, Tensor.readConstants)
}

func (t Tensor) readConstants() (b cache.Buffer, err error) {
	w := t.Scheme()
	role := scheme.GlobalScale
	switch {
	case w.Scale == scheme.Nested:
		role = scheme.NestedMap
	case w.Code == layout.CodeBlocks:
		role = scheme.Scale
	}
	part, _ := t.partOf(role)
	n := part.Elements()
	b.Floats = mmapio.Aligned[float32](int(n))
	if err := t.floats(role, layout.Invalid, b.Floats, 0); err != nil {
		return cache.Buffer{}, err
	}
	if matrix := w.Rows * w.Cols; w.Code == layout.CodeBlocks && matrix > 0 && n < t.Elements()/matrix {
		b.Floats = append(b.Floats, slices.Repeat(b.Floats, int(t.Elements()/matrix-n))...)
	}
	return b, nil
}

// makeScales makes all scales, and the offsets behind them.
func (t Tensor) makeScales() (b cache.Buffer, err error) {
	w := t.Scheme()
	g := dequant.Grouped(w.Grouped)
	entries := t.entries(&g)
	if err := t.heap(entries, 8); err != nil {
		return b, err
	}
	offsets := entries
	if w.Zero == scheme.None {
		offsets = min(1, entries)
	}
	b.Floats = mmapio.Aligned[float32](int(entries + offsets))
	if t.scalesInOrder() {
		s, err := t.readScales(b.Floats, 0, entries)
		if err != nil {
			return cache.Buffer{}, err
		}
		b.Floats = b.Floats[:entries+uint64(len(s.offsets))]
	} else if err := t.transposed(&g, b.Floats[:entries], b.Floats[entries:]); err != nil {
		return cache.Buffer{}, err
	}
	b.Ints, _, err = t.groupIndex(&g)
	return b, err
}

// scalesInOrder reports whether scales and offsets are stored in the order of the scale grid.
func (t Tensor) scalesInOrder() bool {
	w := t.Scheme()
	return (w.Scale == scheme.Direct || w.Scale == scheme.Nested) && (w.Zero == scheme.None || w.Zero == scheme.Direct)
}

// transposed makes scales and offsets that are stored in another order or packed.
func (t Tensor) transposed(g *dequant.Grouped, scales, offsets []float32) error {
	w := t.Scheme()
	_, each := g.Scales(0, w.Cols)
	rows, groups := int(w.Rows), int(cmp.Or(w.ScaleCols, each))
	if w.Scale == scheme.Transposed {
		stored := make([]float32, len(scales))
		if err := t.effective(stored, 0, nil); err != nil {
			return err
		}
		dequant.Transpose(scales, stored, groups, rows)
	} else if err := t.effective(scales, 0, nil); err != nil {
		return err
	}
	part, _ := t.partOf(scheme.ZeroPoint)
	words, err := part.bytesOnce()
	if err != nil {
		return part.wrap(err)
	}
	packed, pieces := dequant.Grouped{Code: w.Code, Rows: uint64(groups), Cols: w.Rows}, 1
	stored := offsets
	switch w.Zero {
	case scheme.PackedAWQ:
		packed.Pack, packed.Rows, packed.Cols = layout.PackAWQ, w.Rows, uint64(groups)
	case scheme.PackedRows:
		packed.Rows, packed.Cols, packed.RowBytes = w.Rows, uint64(groups), uint64(len(words))/max(w.Rows, 1)
	case scheme.PackedGPTQ:
		packed.RowBytes = uint64(len(words) / max(groups, 1))
	case scheme.PackedPlanes: // each a column of words, of one row
		packed.Pack, packed.Rows, pieces = layout.PackPlanes, 1, groups
	case scheme.PackedAlong:
		packed.Pack, pieces = layout.PackGPTQ, len(offsets)/max(rows*groups, 1)
	}
	across := w.Zero != scheme.PackedAWQ && w.Zero != scheme.PackedRows
	if across {
		stored = make([]float32, len(offsets))
	}
	n, size, one := len(offsets)/max(pieces, 1), len(words)/max(pieces, 1), []float32{1}
	for i := 0; i < pieces && err == nil; i++ {
		dst, src := stored[i*n:][:n], words[i*size:][:size]
		_, want := packed.Codes(0, uint64(n))
		if want > uint64(size) {
			err = fmt.Errorf("%w: %d bytes of zero points, not %d", layout.ErrInvalid, size, want)
			break
		}
		err = mmapio.Guard(func() error {
			return packed.Expand(dst, dequant.Parts{Codes: src[:want], Scales: one}, 0, dequant.AllCores)
		})
	}
	if err != nil {
		return part.wrap(err)
	}
	switch middle := float32(uint(1) << (w.Code.Bits() - 1)); {
	case w.Symmetric:
		for i, z := range stored {
			if z != stored[0] || z != middle && z != middle-1 {
				return part.wrap(fmt.Errorf("%w: zero point %d is %v, and codes of %d bits that are symmetric (the configuration's sym: true, or none) have %v, or %v less one, everywhere", layout.ErrInvalid, i, z, w.Code.Bits(), middle, middle))
			}
		}
		for i := range stored {
			stored[i] = middle
		}
	case w.OneMore:
		for i, z := range stored {
			if stored[i] = z + 1; stored[i] == 2*middle { // less one it is all ones, which programs read as 0, 2^bits, or with a carry
				return part.wrap(fmt.Errorf("%w: zero point %d is stored as %v, whose value programs disagree about if it is less one (checkpoint_format: gptq)", ErrUnsupported, i, z))
			}
		}
	}
	for i := 0; across && i < len(stored); i += max(rows*groups, 1) {
		dequant.Transpose(offsets[i:], stored[i:], groups, rows)
	}
	return nil
}

// bytesOnce returns the elements of a part for the length of a call, in place or in memory of their own.
func (t Tensor) bytesOnce() ([]byte, error) {
	if b, ok, err := t.inMemory(0, t.desc.Raw); ok || err != nil {
		return b, err
	}
	if err := t.holdable(t.desc.Raw, 1); err != nil {
		return nil, err
	}
	return mmapio.GatherInto(t.desc.Raw, t.present, func(to mmapio.Destination[byte]) error {
		b := to.Room(0, t.desc.Raw)
		return to.Filled(0, b, t.readAt(b, 0))
	})
}

// groupIndex reads the group of each column, and checks it. It returns nil if groups are consecutive. zeros
// reports that the part puts all columns into the first of several groups, which programs understand
// differently.
func (t Tensor) groupIndex(g *dequant.Grouped) (index []int32, zeros bool, err error) {
	w := t.Scheme()
	part, ok := t.partOf(scheme.GroupIndex)
	if !ok || w.Cols == 0 || w.Rows == 0 {
		return nil, false, nil
	}
	b, err := part.bytesOnce()
	if err != nil {
		return nil, false, part.wrap(err)
	}
	_, each := g.Scales(0, w.Cols)
	size := part.desc.DType.BlockBytes()
	index, zeros = make([]int32, w.Cols), each > 1
	groupOf := func(c int) int64 {
		if size == 8 {
			return int64(binary.LittleEndian.Uint64(b[c*size:]))
		}
		return int64(int32(binary.LittleEndian.Uint32(b[c*size:])))
	}
	unset, inOrder := w.UnsetIndex, true
	err = mmapio.Guard(func() error {
		for c := 0; unset && c < len(index); c++ {
			unset = groupOf(c) == -1
		}
		for c := range index {
			v := groupOf(c)
			if unset {
				zeros = false
				break
			}
			if v < 0 || uint64(v) >= each {
				return part.wrap(fmt.Errorf("%w: column %d is in group %d of %d", layout.ErrInvalid, c, v, each))
			}
			index[c] = int32(v)
			zeros = zeros && v == 0
			inOrder = inOrder && (w.GroupCols == 0 && v == 0 || w.GroupCols != 0 && uint64(v) == uint64(c)/w.GroupCols)
		}
		return nil
	})
	if err != nil || unset || inOrder || zeros && w.IgnoreZeroIndex {
		return nil, zeros, err
	}
	return index, zeros, nil
}

// checkParts checks all that parts say of codes. zeros is that of groupIndex.
func (t Tensor) checkParts() (zeros bool, err error) {
	if err := t.checkContents(); err != nil {
		return false, err
	}
	if err := t.checkScales(); err != nil {
		return false, err
	}
	if t.Scheme().Symmetric { // which the zero points may contradict
		if _, err := t.makeScales(); err != nil {
			return false, err
		}
	}
	g := dequant.Grouped(t.Scheme().Grouped)
	_, zeros, err = t.groupIndex(&g)
	return zeros, err
}

// checkScales checks that no scale of one byte is NaN, which the scales tell without their codes.
func (t Tensor) checkScales() error {
	d := t.Scheme().ScaleType
	part, ok := t.partOf(scheme.Scale)
	if !ok || d != layout.F8_E4M3 && d != layout.F8_E8M0 {
		return nil
	}
	b, err := part.bytesOnce()
	if err != nil {
		return part.wrap(err)
	}
	return part.wrap(mmapio.Guard(func() error {
		for i, v := range b {
			if v == 0xff || v == 0x7f && d == layout.F8_E4M3 {
				return fmt.Errorf("%w: scale %d is NaN (%#x as %v)", layout.ErrInvalid, i, v, d)
			}
		}
		return nil
	}))
}

// checkContents checks the parts whose content says how codes are read.
func (t Tensor) checkContents() error {
	w := t.Scheme()
	if part, ok := t.partOf(scheme.Layout); ok {
		b, err := part.bytesOnce()
		if err != nil {
			return part.wrap(err)
		}
		var format byte
		if err := mmapio.Guard(func() error { format = slices.Max(append([]byte{0}, b...)); return nil }); err != nil {
			return part.wrap(err)
		}
		if format != 0 {
			return part.wrap(fmt.Errorf("%w: codes in the tiles of format %d", ErrUnsupported, format))
		}
	}
	if part, ok := t.partOf(scheme.QuantMap); ok {
		var values [16]float32
		if err := t.floats(scheme.QuantMap, layout.Invalid, values[:], 0); err != nil {
			return err
		}
		if want, _ := dequant.Table(w.Code); values != want {
			return part.wrap(fmt.Errorf("%w: codes stand for other values than those of %s", ErrUnsupported, w.Scheme))
		}
	}
	return nil
}
