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
	scalesReadAlone atomic.Uint64 // scales that callers have read for ranges alone, from files that are not in place
}

var _ values.Scales = (*weight)(nil)

// values returns the weight's values, which are computed from its codes and scales when they are read. codes is the state of the codes.
// If w.Code is layout.CodeBlocks, the codes are blocks of a dtype, with one factor for each matrix. values itself reads nothing. If a part
// cannot be read, reading any value fails with that error.
func (w *weight) values(codes *state) values.Values {
	for _, p := range w.Parts {
		part := Tensor{model: w.model, index: p.Tensor}
		if err := part.file().checkReadable(part.desc()); err != nil {
			return values.Refused{Reason: part.wrap(err), Content: codes.elements}
		}
	}
	wrapError := Tensor{model: w.model, index: w.codes()}.wrap
	if w.Code == layout.CodeBlocks {
		return &values.Scaled{Values: codes.values.Uncached, MatrixSize: w.Rows * w.Cols, WrapError: wrapError, Factors: func(ctx context.Context, env content.Env) ([]float32, error) {
			b, err := w.fromCacheOr(ctx, env, cache.Scales, w.readScalesForCache)
			return b.Floats, err
		}}
	}
	check := func(ctx context.Context, env content.Env) error {
		return w.Check(ctx, &partReader{weight: w, env: env})
	}
	return &values.Grouped{Geometry: dequant.Grouped(w.Grouped), Count: w.elements(), Codes: codes.elements, Scales: w, Check: check, WrapError: wrapError}
}

// codes returns the position of the stored tensor that has the codes.
func (w *weight) codes() uint32 { return w.Parts[0].Tensor }

// key returns the key under which the cache has something of the weight, such as its scales.
func (w *weight) key(kind cache.Kind) cache.Key { return cache.Key{Tensor: w.codes(), Kind: kind} }

// elements returns how many elements the weight has.
func (w *weight) elements() uint64 {
	n, _ := layout.Elements(w.Shape)
	return n
}

// scaleCount returns the number of scales of the whole weight, which has one for each group of g.
func (w *weight) scaleCount(g *dequant.Grouped) uint64 {
	_, n := g.Scales(0, w.elements())
	return n
}

// part returns the part of the weight that has a role, such as its scales. ok is false if there is none.
func (w *weight) part(r scheme.Role) (p Tensor, ok bool) {
	i, ok := w.Part(r)
	return Tensor{model: w.model, index: i}, ok
}

// fromCacheOr returns what the cache has of the weight under kind. If the cache has nothing, fromCacheOr calls fill, and caches the result.
// It pins the result by env.Pins. It fails if fill does.
func (w *weight) fromCacheOr(ctx context.Context, env content.Env, kind cache.Kind, fill func(context.Context, content.Env) (cache.Buffer, error)) (cache.Buffer, error) {
	return w.model.cache.Get(ctx, w.key(kind), env.Pins, func(ctx context.Context, pins *cache.Pins) (cache.Buffer, error) {
		return fill(ctx, content.Env{Pins: pins})
	})
}

// All returns all scales of the weight. It takes them from the cache, or else reads them into the cache. The caller expands n elements, from
// element first on. ok is false if the cache has no scales, and the caller had better read only the scales of its elements. All fails if
// reading does.
func (w *weight) All(ctx context.Context, env content.Env, first, n uint64) (s values.Scaling, ok bool, err error) {
	g := dequant.Grouped(w.Grouped)
	b, ok := w.model.cache.Peek(w.key(cache.Scales), env.Pins)
	if !ok {
		if w.readsAlone(&g, first, n) {
			return s, false, nil
		}
		if b, err = w.fromCacheOr(ctx, env, cache.Scales, w.readScalesForCache); err != nil {
			return s, false, err
		}
	}
	scaleCount := w.scaleCount(&g)
	s = values.Scaling{Scales: b.Floats[:scaleCount], Offsets: b.Floats[scaleCount:]}
	if len(b.Ints) > 0 {
		s.GroupOf = b.Ints
	}
	return s, true, nil
}

// readsAlone reports whether a caller that expands n elements, from element first on, had better read only their scales. It
// reports false if scales must be read together. It reports true if scales are in place. Otherwise the weight's scales are worth caching
// after some calls: readsAlone adds up the scales that callers read, in w.scalesReadAlone. It reports true until the sum exceeds the number
// of the weight's scales, but false for a caller that expands all elements. The weight has scales.
func (w *weight) readsAlone(g *dequant.Grouped, first, n uint64) bool {
	if !w.Ordered {
		return false
	}
	if scale, _ := w.part(scheme.Scale); scale.state().elements.Cost().InPlace() {
		return true
	}
	_, count := g.Scales(first, n)
	return w.scalesReadAlone.Add(count) <= w.scaleCount(g) && n < w.elements()
}

// Read returns count scales and their offsets, beginning with the scale that has the number from. They are in memory.Floats, the scales
// first, and valid until memory is used again. memory.Floats must have 2*count numbers. Read fails if reading does.
func (w *weight) Read(ctx context.Context, env content.Env, memory *values.Scratch, from, count uint64) (s values.Scaling, err error) {
	r, ok := memory.Reader.(*partReader) // that an earlier call has made, so that this one allocates nothing
	if !ok {
		r = new(partReader)
		memory.Reader = r
	}
	*r = partReader{weight: w, env: env, scalesRead: scheme.Scales{Scales: memory.Floats[:count:count], Offsets: memory.Floats[count:]}}
	err = w.ReadScales(ctx, r, &r.scalesRead, from)
	s = values.Scaling{Scales: r.scalesRead.Scales, Offsets: r.scalesRead.Offsets, From: from}
	*r = partReader{} // scratch memory refers to no model
	return s, err
}

// readAllScales reads all scales and offsets of the weight into one new buffer, scales first. It fails with ErrTooLarge beyond
// Options.TensorBytes, if reading does, or if parts do not fit.
func (w *weight) readAllScales(ctx context.Context, env content.Env) (s scheme.Scales, err error) {
	g := dequant.Grouped(w.Grouped)
	scaleCount := w.scaleCount(&g)
	if err := w.model.cacheStore.Limit.Allow(scaleCount, 8); err != nil { // 4 bytes each of a scale and an offset
		return s, err
	}
	offsets := scaleCount
	if !w.HasOffsets { // of each group
		offsets = min(1, scaleCount) // for one that all groups share, if the scheme has that
	}
	floats := mmapio.Aligned[float32](int(scaleCount + offsets))
	r := &partReader{weight: w, env: env, scalesRead: scheme.Scales{Scales: floats[:scaleCount], Offsets: floats[scaleCount:]}}
	err = w.ReadScales(ctx, r, &r.scalesRead, 0) // shortens Offsets to the offsets that exist
	return r.scalesRead, err
}

// readScalesForCache reads all scales and offsets of the weight into one buffer for the cache: floats have scales, then
// offsets. It fails if reading does.
func (w *weight) readScalesForCache(ctx context.Context, env content.Env) (cache.Buffer, error) {
	s, err := w.readAllScales(ctx, env)
	if err != nil {
		return cache.Buffer{}, err
	}
	both := s.Scales[:len(s.Scales)+len(s.Offsets)] // readAllScales puts the offsets behind the scales
	return cache.Buffer{Floats: both, Ints: s.GroupOf}, nil
}

// verify checks all parts of the weight. zeroIndexTaken is "" unless the group index has nothing but zeros, which programs understand
// differently. Then it says how the index was understood: see scheme.Scales.ZeroIndex. verify fails if parts do not fit each other or
// cannot be read.
func (w *weight) verify(ctx context.Context, env content.Env) (zeroIndexTaken string, err error) {
	r := &partReader{weight: w, env: env}
	if err := cmp.Or(w.Check(ctx, r), w.CheckScales(ctx, r)); err != nil {
		return "", err
	}
	if w.Ordered { // it has no group index
		return "", nil
	}
	s, err := w.readAllScales(ctx, env) // which reads the group index too
	return s.ZeroIndex, err
}

// partReader reads the parts of a weight for one call of its scheme. The scheme asks for parts by their roles. Only Bytes takes a role that
// no part of the weight has.
type partReader struct {
	*weight
	env        content.Env
	scalesRead scheme.Scales // what is read
	typed      values.Typed  // values of the part that is read
}

var _ scheme.Parts = (*partReader)(nil)

// Floats expands len(dst) elements of the weight's part that has the given role, such as its scales, into dst. It begins with element
// first. d is the type of the elements, or layout.Invalid for the part's own type. Floats fails if reading does. The error names the part.
func (r *partReader) Floats(ctx context.Context, role scheme.Role, d layout.DType, dst []float32, first uint64) error {
	p, _ := r.part(role)
	d = cmp.Or(d, p.desc().DType)
	err := checkExpandable(d)
	if err == nil {
		r.typed.Content, r.typed.Codec = p.state().elements, plainCodecs[d]
		err = r.typed.Read(ctx, r.env, dst, first)
	}
	return r.Wrap(role, err)
}

// Constants returns all values of the weight's part that has the given role, such as its global scale. It takes them from the cache, or
// else reads them into the cache, and pins them there by r.env.Pins. The caller must not change them. Constants fails if reading does. The
// error names the part.
func (r *partReader) Constants(ctx context.Context, role scheme.Role) ([]float32, error) {
	b, err := r.fromCacheOr(ctx, r.env, cache.Constants, func(ctx context.Context, env content.Env) (b cache.Buffer, err error) {
		p, _ := r.part(role)
		b.Floats = mmapio.Aligned[float32](int(p.Elements()))
		own := &partReader{weight: r.weight, env: env} // env pins what Floats needs in the cache until the values are complete
		return b, own.Floats(ctx, role, layout.Invalid, b.Floats, 0)
	})
	return b.Floats, err
}

// Bytes returns the elements of the weight's part that has the given role, in place or copied. It returns nil if there is no such part. It
// fails if reading does. The error names the part.
func (r *partReader) Bytes(ctx context.Context, role scheme.Role) ([]byte, error) {
	p, ok := r.part(role)
	if !ok {
		return nil, nil
	}
	b, err := content.Bytes(ctx, r.env, p.state().elements, p.model.cacheStore.Limit)
	return b, r.Wrap(role, err)
}

// Wrap returns err with the names of the file and of the part that has the given role. It returns nil if err is nil.
func (r *partReader) Wrap(role scheme.Role, err error) error {
	p, _ := r.part(role)
	return p.wrap(err)
}
