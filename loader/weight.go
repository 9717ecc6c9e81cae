package loader

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/values"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/scheme"
)

// weight is a logical tensor. Its scheme reads the scales of its codes.
type weight struct {
	model *Model
	scheme.Weight
	asked atomic.Uint64 // scales that ranges have read, from files that are not in place
}

var _ values.Scales = (*weight)(nil)

// values returns how the values of the weight are computed from its codes, whose state is given, and its scales. If a
// part cannot be read, all values are that error.
func (w *weight) values(codes *state) values.Values {
	for _, p := range w.Parts {
		if part := w.model.partOf(p.Tensor); part.s.err != nil {
			return values.Refused{Reason: part.wrap(part.s.err), In: codes.elements}
		}
	}
	named := w.model.partOf(w.codes()).wrap
	if w.Code == layout.CodeBlocks {
		return &values.Scaled{Values: codes.values.Values, Matrix: w.Rows * w.Cols, Named: named, Factors: func(ctx context.Context, env content.Env) ([]float32, error) {
			b, err := w.cached(ctx, env, cache.Scales, w.allScales)
			return b.Floats, err
		}}
	}
	return &values.Grouped{Geometry: dequant.Grouped(w.Grouped), N: w.elements(), Codes: codes.elements, Scales: w, Check: w.check, Named: named}
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

// entries returns the number of scales of all elements, as g groups them.
func (w *weight) entries(g *dequant.Grouped) uint64 {
	_, n := g.Scales(0, w.elements())
	return n
}

// part returns the part of the weight that has a role, such as its scales. ok is false if there is none.
func (w *weight) part(r scheme.Role) (p member, ok bool) {
	i, ok := w.Part(r)
	if !ok {
		return p, false
	}
	return w.model.partOf(i), true
}

// cached returns what the cache has of the weight in the form kind, or else what fill makes, which is then cached and
// pinned.
func (w *weight) cached(ctx context.Context, env content.Env, kind cache.Kind, fill func(context.Context, content.Env) (cache.Buffer, error)) (cache.Buffer, error) {
	return w.model.cache.Get(ctx, w.key(kind), env.Pins, func(ctx context.Context, pins *cache.Pins) (cache.Buffer, error) {
		return fill(ctx, content.Env{Pins: pins})
	})
}

// All returns all scales of the weight, from the cache or read into it, for a range of n elements from first on. ok is
// false if reading the range's own scales is cheaper: they can be read alone, and lie in memory or few have been read
// so far.
func (w *weight) All(ctx context.Context, env content.Env, first, n uint64) (s values.Scaling, ok bool, err error) {
	g := dequant.Grouped(w.Grouped)
	b, ok := w.model.cache.Peek(w.key(cache.Scales), env.Pins)
	if !ok {
		if w.Ordered {
			scale, _ := w.part(scheme.Scale)
			if scale.s.elements.Cost().Piece == 0 {
				return s, false, nil
			}
			_, count := g.Scales(first, n)
			if asked := w.asked.Add(count); asked <= w.entries(&g) && n < w.elements() {
				return s, false, nil
			}
		}
		if b, err = w.cached(ctx, env, cache.Scales, w.allScales); err != nil {
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

// Read returns count scales, from scale from on, and their offsets. They are in mem.Floats, and valid until mem is used
// again.
func (w *weight) Read(ctx context.Context, env content.Env, mem *values.Scratch, from, count uint64) (s values.Scaling, err error) {
	r, ok := mem.Reader.(*partReader)
	if !ok {
		r = new(partReader)
		mem.Reader = r
	}
	*r = partReader{w, ctx, env, scheme.Scales{Scales: mem.Floats[:count:count], Offsets: mem.Floats[count:]}}
	err = w.ReadScales(r, &r.scales, from)
	s = values.Scaling{Scales: r.scales.Scales, Offsets: r.scales.Offsets, From: from}
	*r = partReader{} // scratch memory refers to no model
	return s, err
}

// makeScales reads all scales and offsets. The offsets lie behind the scales in the same memory, so that both are one
// buffer of the cache. The error is ErrTooLarge, that of reading, or of parts that do not fit.
func (w *weight) makeScales(ctx context.Context, env content.Env) (s scheme.Scales, err error) {
	g := dequant.Grouped(w.Grouped)
	entries := w.entries(&g)
	if err := w.model.store.Limit.Allow(entries, 8); err != nil {
		return s, err
	}
	offsets := entries
	if !w.HasOffsets { // one, if any, stands for all
		offsets = min(1, entries)
	}
	floats := mmapio.Aligned[float32](int(entries + offsets))
	r := &partReader{w, ctx, env, scheme.Scales{Scales: floats[:entries], Offsets: floats[entries:]}}
	err = w.ReadScales(r, &r.scales, 0)
	return r.scales, err
}

// allScales returns what makeScales makes as one buffer for the cache: its floats are the scales, then the offsets.
func (w *weight) allScales(ctx context.Context, env content.Env) (cache.Buffer, error) {
	s, err := w.makeScales(ctx, env)
	if err != nil {
		return cache.Buffer{}, err
	}
	return cache.Buffer{Floats: s.Scales[:len(s.Scales)+len(s.Offsets)], Ints: s.GroupOf}, nil
}

// check checks the parts that say how codes are read.
func (w *weight) check(ctx context.Context, env content.Env) error {
	return w.Check(&partReader{weight: w, ctx: ctx, env: env})
}

// verify checks all that parts say of codes. It returns how a group index of zeros alone was taken, which programs
// understand differently, or nothing.
func (w *weight) verify(ctx context.Context, env content.Env) (zeroIndex string, err error) {
	r := &partReader{weight: w, ctx: ctx, env: env}
	if err := cmp.Or(w.Check(r), w.CheckScales(r)); err != nil || w.Ordered {
		return "", err
	}
	s, err := w.makeScales(ctx, env)
	return s.ZeroIndex, err
}

// partReader reads the parts of a weight for one call of its scheme.
type partReader struct {
	*weight
	ctx    context.Context
	env    content.Env
	scales scheme.Scales // what is read
}

var _ scheme.Parts = (*partReader)(nil)

// Floats expands len(dst) elements of the part with a role to dst, from element first on. Their type is d, or that of
// the part if d is layout.Invalid. The error names the part.
func (r *partReader) Floats(role scheme.Role, d layout.DType, dst []float32, first uint64) error {
	p, _ := r.part(role)
	c, err := dequant.NewCodec(cmp.Or(d, p.desc().DType), layout.Quant{}, false)
	if err == nil {
		err = values.Expand(r.ctx, r.env, c, p.s.elements, dst, first)
	}
	return p.wrap(err)
}

// Constants returns all values of the part with a role, from the cache. A weight has at most one such part.
func (r *partReader) Constants(role scheme.Role) ([]float32, error) {
	b, err := r.cached(r.ctx, r.env, cache.Constants, func(ctx context.Context, env content.Env) (b cache.Buffer, err error) {
		p, _ := r.part(role)
		b.Floats = mmapio.Aligned[float32](int(p.Elements()))
		own := &partReader{weight: r.weight, ctx: ctx, env: env}
		return b, own.Floats(role, layout.Invalid, b.Floats, 0)
	})
	return b.Floats, err
}

// Bytes returns the elements of the part with a role, in place or copied, or nil if there is no such part.
func (r *partReader) Bytes(role scheme.Role) ([]byte, error) {
	p, ok := r.part(role)
	if !ok {
		return nil, nil
	}
	b, err := content.Bytes(r.ctx, r.env, p.s.elements, p.model.store.Limit)
	return b, p.wrap(err)
}

// Wrap adds the name of a part to an error.
func (r *partReader) Wrap(role scheme.Role, err error) error {
	p, _ := r.part(role)
	return p.wrap(err)
}
