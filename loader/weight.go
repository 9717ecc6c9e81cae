package loader

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/values"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/scheme"
)

// weight is a logical tensor. It has the scales of its codes, made of the parts as its scheme says.
type weight struct {
	model *Model
	scheme.Weight
	asked atomic.Uint64 // scales that ranges have read, from files that are not in place
}

var _ values.Scales = (*weight)(nil)

// values returns the values of the weight, whose codes have the state given.
func (w *weight) values(codes *state) values.Values {
	for _, p := range w.Parts {
		if part := w.model.partOf(p.Tensor); part.s.err != nil {
			return values.Refused{Reason: part.wrap(part.s.err), In: codes.elements}
		}
	}
	named := w.model.partOf(w.codes()).wrap
	if w.Code == layout.CodeBlocks {
		return &values.Scaled{Values: codes.values.Values, Matrix: w.Rows * w.Cols, Named: named, Factors: func(ctx context.Context, env content.Env) ([]float32, error) {
			b, err := w.constants(ctx, env)
			return b.Floats, err
		}}
	}
	return &values.Grouped{Geometry: dequant.Grouped(w.Grouped), N: w.elements(), Codes: codes.elements, Scales: w, Check: w.checkContents, Named: named}
}

// codes returns the position of the stored tensor that has the codes.
func (w *weight) codes() uint32 { return w.Parts[0].Tensor }

// key names what the cache has of the weight.
func (w *weight) key(kind cache.Kind) cache.Key { return cache.Key{Tensor: w.codes(), Kind: kind} }

// elements returns how many elements the weight has.
func (w *weight) elements() uint64 {
	n, _ := layout.Elements(w.Shape)
	return n
}

// entries returns how many scales all elements have.
func (w *weight) entries(g *dequant.Grouped) uint64 {
	_, n := g.Scales(0, w.elements())
	return n
}

// part returns the part that has a role.
func (w *weight) part(r scheme.Role) (p member, ok bool) {
	i, ok := w.Part(r)
	if !ok {
		return p, false
	}
	return w.model.partOf(i), true
}

// bytes returns the elements of a part for the length of a call, in place or in memory of their own.
func (p member) bytes(ctx context.Context, env content.Env) ([]byte, error) {
	b, err := content.Bytes(ctx, env, p.s.elements, p.model.store.Limit)
	return b, p.wrap(err)
}

// floats reads elements of a part from element first on, of type d or, if d is Invalid, of the part's.
func (w *weight) floats(ctx context.Context, env content.Env, r scheme.Role, d layout.DType, dst []float32, first uint64) error {
	p, _ := w.part(r)
	c, err := dequant.NewCodec(cmp.Or(d, p.desc().DType), layout.Quant{}, false)
	if err == nil {
		err = values.Expand(ctx, env, c, p.s.elements, dst, first)
	}
	return p.wrap(err)
}

// kept returns what the cache has of the weight, or what fill makes.
func (w *weight) kept(ctx context.Context, env content.Env, kind cache.Kind, fill func(context.Context, content.Env) (cache.Buffer, error)) (cache.Buffer, error) {
	return w.model.cache.Get(ctx, w.key(kind), env.Pins, func(ctx context.Context, pins *cache.Pins) (cache.Buffer, error) {
		return fill(ctx, content.Env{Pins: pins})
	})
}

// constants returns what all scales of the weight share: scales of scales, or the values of their codes.
func (w *weight) constants(ctx context.Context, env content.Env) (cache.Buffer, error) {
	return w.kept(ctx, env, cache.Constants, w.readConstants)
}

// All returns all scales of the weight, which the cache keeps. All are read if a range's scales cannot be read alone, or once
// ranges have read as many as there are.
func (w *weight) All(ctx context.Context, env content.Env, first, n uint64) (s values.Scaling, ok bool, err error) {
	g := dequant.Grouped(w.Grouped)
	b, ok := w.model.cache.Peek(w.key(cache.Scales), env.Pins)
	if !ok {
		if w.scalesApart() {
			scale, _ := w.part(scheme.Scale)
			if scale.s.elements.Cost().Piece == 0 {
				return s, false, nil
			}
			_, count := g.Scales(first, n)
			if asked := w.asked.Add(count); asked <= w.entries(&g) && n < w.elements() {
				return s, false, nil
			}
		}
		if b, err = w.kept(ctx, env, cache.Scales, w.makeScales); err != nil {
			return s, false, err
		}
	}
	entries := w.entries(&g)
	s = values.Scaling{Scales: b.Floats[:entries], Offsets: b.Floats[entries:]}
	if len(b.Ints) > 0 {
		s.GroupOf = b.Ints
	}
	return s, true, nil
}

// scalesApart reports whether the scales of a range can be read without the others.
func (w *weight) scalesApart() bool {
	_, indexed := w.Part(scheme.GroupIndex)
	return !indexed && w.scalesInOrder()
}

// Read returns count scales and their offsets from scale from on, in mem.
func (w *weight) Read(ctx context.Context, env content.Env, mem []float32, from, count uint64) (values.Scaling, error) {
	s := values.Scaling{Scales: mem[:count:count], From: from}
	if err := w.effective(ctx, env, s.Scales, from, mem[count:]); err != nil { // offsets overwrite the room
		return s, err
	}
	switch {
	case w.Zero == scheme.Direct:
		s.Offsets = mem[count:][:count]
		role := scheme.ZeroPoint
		if w.Bias {
			role = scheme.Bias
		}
		if err := w.floats(ctx, env, role, layout.Invalid, s.Offsets, from); err != nil {
			return s, err
		}
		if w.CodeOffset != 0 {
			for i := range s.Offsets {
				s.Offsets[i] += w.CodeOffset
			}
		}
	case w.CodeOffset != 0:
		s.Offsets = mem[count:][:1]
		s.Offsets[0] = w.CodeOffset
	}
	return s, nil
}

// effective reads the scales that codes are multiplied by, from scale from on. Scales of scales are
// applied. It may overwrite room.
func (w *weight) effective(ctx context.Context, env content.Env, dst []float32, from uint64, room []float32) error {
	if err := w.floats(ctx, env, scheme.Scale, w.ScaleType, dst, from); err != nil {
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
	b, err := w.constants(ctx, env)
	if err != nil {
		return err
	}
	if w.Scale == scheme.Nested {
		return w.unnest(ctx, env, dst, from, b.Floats, room)
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
func (w *weight) unnest(ctx context.Context, env content.Env, dst []float32, from uint64, table, room []float32) error {
	lo := from / w.NestedBlock
	scales := grown(room, (from+uint64(len(dst))-1)/w.NestedBlock+1-lo)
	if err := w.floats(ctx, env, scheme.NestedScale, layout.Invalid, scales, lo); err != nil {
		return err
	}
	for i := range dst {
		product := table[uint8(dst[i])] * scales[(from+uint64(i))/w.NestedBlock-lo]
		dst[i] = product + w.NestedOffset
	}
	return nil
}

func (w *weight) readConstants(ctx context.Context, env content.Env) (b cache.Buffer, err error) {
	role := scheme.GlobalScale
	switch {
	case w.Scale == scheme.Nested:
		role = scheme.NestedMap
	case w.Code == layout.CodeBlocks:
		role = scheme.Scale
	}
	part, _ := w.part(role)
	n := part.Elements()
	b.Floats = mmapio.Aligned[float32](int(n))
	if err := w.floats(ctx, env, role, layout.Invalid, b.Floats, 0); err != nil {
		return cache.Buffer{}, err
	}
	if matrix := w.Rows * w.Cols; w.Code == layout.CodeBlocks && matrix > 0 && n < w.elements()/matrix {
		b.Floats = append(b.Floats, slices.Repeat(b.Floats, int(w.elements()/matrix-n))...)
	}
	return b, nil
}

// makeScales makes all scales, and the offsets behind them.
func (w *weight) makeScales(ctx context.Context, env content.Env) (b cache.Buffer, err error) {
	g := dequant.Grouped(w.Grouped)
	entries := w.entries(&g)
	if err := w.model.store.Limit.Allow(entries, 8); err != nil {
		return b, err
	}
	offsets := entries
	if w.Zero == scheme.None {
		offsets = min(1, entries)
	}
	b.Floats = mmapio.Aligned[float32](int(entries + offsets))
	if w.scalesInOrder() {
		s, err := w.Read(ctx, env, b.Floats, 0, entries)
		if err != nil {
			return cache.Buffer{}, err
		}
		b.Floats = b.Floats[:entries+uint64(len(s.Offsets))]
	} else if err := w.transposed(ctx, env, &g, b.Floats[:entries], b.Floats[entries:]); err != nil {
		return cache.Buffer{}, err
	}
	b.Ints, _, err = w.groupIndex(ctx, env, &g)
	return b, err
}

// scalesInOrder reports whether scales and offsets are stored in the order of the scale grid.
func (w *weight) scalesInOrder() bool {
	return (w.Scale == scheme.Direct || w.Scale == scheme.Nested) && (w.Zero == scheme.None || w.Zero == scheme.Direct)
}

// transposed makes scales and offsets that are stored in another order or packed.
func (w *weight) transposed(ctx context.Context, env content.Env, g *dequant.Grouped, scales, offsets []float32) error {
	_, each := g.Scales(0, w.Cols)
	rows, groups := int(w.Rows), int(cmp.Or(w.ScaleCols, each))
	if w.Scale == scheme.Transposed {
		stored := make([]float32, len(scales))
		if err := w.effective(ctx, env, stored, 0, nil); err != nil {
			return err
		}
		dequant.Transpose(scales, stored, groups, rows)
	} else if err := w.effective(ctx, env, scales, 0, nil); err != nil {
		return err
	}
	part, _ := w.part(scheme.ZeroPoint)
	words, err := part.bytes(ctx, env)
	if err != nil {
		return err
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
		err = packed.Expand(dst, dequant.Parts{Codes: src[:want], Scales: one}, 0, dequant.AllCores)
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

// groupIndex reads the group of each column, and checks it. It returns nil if groups are consecutive. zeros
// reports that the part puts all columns into the first of several groups, which programs understand
// differently.
func (w *weight) groupIndex(ctx context.Context, env content.Env, g *dequant.Grouped) (index []int32, zeros bool, err error) {
	part, ok := w.part(scheme.GroupIndex)
	if !ok || w.Cols == 0 || w.Rows == 0 {
		return nil, false, nil
	}
	b, err := part.bytes(ctx, env)
	if err != nil {
		return nil, false, err
	}
	_, each := g.Scales(0, w.Cols)
	size := part.desc().DType.BlockBytes()
	index, zeros = make([]int32, w.Cols), each > 1
	groupOf := func(c int) int64 {
		if size == 8 {
			return int64(binary.LittleEndian.Uint64(b[c*size:]))
		}
		return int64(int32(binary.LittleEndian.Uint32(b[c*size:])))
	}
	unset, inOrder := w.UnsetIndex, true
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
			return nil, false, part.wrap(fmt.Errorf("%w: column %d is in group %d of %d", layout.ErrInvalid, c, v, each))
		}
		index[c] = int32(v)
		zeros = zeros && v == 0
		inOrder = inOrder && (w.GroupCols == 0 && v == 0 || w.GroupCols != 0 && uint64(v) == uint64(c)/w.GroupCols)
	}
	if unset || inOrder || zeros && w.IgnoreZeroIndex {
		return nil, zeros, nil
	}
	return index, zeros, nil
}

// checkParts checks all that parts say of codes. zeros is that of groupIndex.
func (w *weight) checkParts(ctx context.Context, env content.Env) (zeros bool, err error) {
	if err := w.checkContents(ctx, env); err != nil {
		return false, err
	}
	if err := w.checkScales(ctx, env); err != nil {
		return false, err
	}
	if w.Symmetric { // which the zero points may contradict
		if _, err := w.makeScales(ctx, env); err != nil {
			return false, err
		}
	}
	g := dequant.Grouped(w.Grouped)
	_, zeros, err = w.groupIndex(ctx, env, &g)
	return zeros, err
}

// checkScales checks that no scale of one byte is NaN, which the scales tell without their codes.
func (w *weight) checkScales(ctx context.Context, env content.Env) error {
	d := w.ScaleType
	part, ok := w.part(scheme.Scale)
	if !ok || d != layout.F8_E4M3 && d != layout.F8_E8M0 {
		return nil
	}
	b, err := part.bytes(ctx, env)
	if err != nil {
		return err
	}
	for i, v := range b {
		if v == 0xff || v == 0x7f && d == layout.F8_E4M3 {
			return part.wrap(fmt.Errorf("%w: scale %d is NaN (%#x as %v)", layout.ErrInvalid, i, v, d))
		}
	}
	return nil
}

// checkContents checks the parts whose content says how codes are read.
func (w *weight) checkContents(ctx context.Context, env content.Env) error {
	if part, ok := w.part(scheme.Layout); ok {
		b, err := part.bytes(ctx, env)
		if err != nil {
			return err
		}
		if format := slices.Max(append([]byte{0}, b...)); format != 0 {
			return part.wrap(fmt.Errorf("%w: codes in the tiles of format %d", ErrUnsupported, format))
		}
	}
	if part, ok := w.part(scheme.QuantMap); ok {
		var values [16]float32
		if err := w.floats(ctx, env, scheme.QuantMap, layout.Invalid, values[:], 0); err != nil {
			return err
		}
		if want, _ := dequant.Table(w.Code); values != want {
			return part.wrap(fmt.Errorf("%w: codes stand for other values than those of %s", ErrUnsupported, w.Scheme))
		}
	}
	return nil
}
