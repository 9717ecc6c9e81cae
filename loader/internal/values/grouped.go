package values

import (
	"context"
	"sync/atomic"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/loader/internal/content"
)

// Grouped is the values of codes whose scales lie apart, a scale for a group of codes.
type Grouped struct {
	Geometry dequant.Grouped
	Count    uint64
	Codes    *content.Cached
	Scales   Scales
	// Check checks the parts that say how codes are read, until it has found nothing wrong.
	Check func(ctx context.Context, env content.Env) error
	// WrapError adds the name of the codes to an error about them.
	WrapError func(error) error

	checked atomic.Bool
}

// Scales has the scales of groups, and the offsets that are subtracted from their codes. Errors name the part that they
// are about.
type Scales interface {
	// All returns all scales, for a caller that expands n values from element first on. ok is false if that caller should read
	// only the scales of its values.
	All(ctx context.Context, env content.Env, first, n uint64) (s Scaling, ok bool, err error)
	// Read returns count scales and their offsets, beginning with the scale that has the number from. Their memory is mem.Floats, which has
	// 2·count numbers.
	Read(ctx context.Context, env content.Env, mem *Scratch, from, count uint64) (Scaling, error)
}

// Scaling is the scales of consecutive groups.
type Scaling struct {
	Scales  []float32
	Offsets []float32 // of each group; one for all; or none
	From    uint64    // the number of the scale that is Scales[0]
	GroupOf []int32   // the group of each column, or nil
}

// ofGroups returns count scales, beginning with the scale that has the number from, at least s.From. It also returns their offsets: one for
// each scale, a single one that serves all groups, or none.
func (s *Scaling) ofGroups(from, count uint64) (scales, offsets []float32) {
	offsets = s.Offsets
	if len(offsets) > 1 {
		offsets = offsets[from-s.From:][:count]
	}
	return s.Scales[from-s.From:][:count], offsets
}

// Err returns nil: there are values.
func (v *Grouped) Err() error { return nil }

// Elements returns the number of values.
func (v *Grouped) Elements() uint64 { return v.Count }

// Source returns the content of the codes.
func (v *Grouped) Source() content.Content { return v.Codes }

// Blocks always reports false: package dot does not multiply codes whose scales lie apart, and callers use Read.
func (v *Grouped) Blocks(context.Context, content.Env) (b Blocks, ok bool, err error) {
	return b, false, nil
}

// Read fills dst with the values from element first on. It first calls Check, unless an earlier call has succeeded. If codes and scales
// are all in memory, it expands them in one step. Otherwise it reads what is missing for some values at a time, and expands the values. It
// fails if Check or reading does.
func (v *Grouped) Read(ctx context.Context, env content.Env, dst []float32, first uint64) error {
	if len(dst) == 0 {
		return nil
	}
	if !v.checked.Load() {
		if err := v.Check(ctx, env); err != nil {
			return err
		}
		v.checked.Store(true)
	}
	g, n := v.Geometry, uint64(len(dst))
	codes, firstByte, err := v.codesInMemory(ctx, env, &g, first, n)
	if err != nil {
		return v.WrapError(err)
	}
	s, hasAllScales, err := v.Scales.All(ctx, env, first, n)
	if err != nil {
		return err
	}
	step := uint64(content.RemoteRead / 4) // values at a time
	if codes != nil && hasAllScales {
		step = n
	} else if codes == nil && !v.Codes.Cost().LargeReads() {
		step = content.LocalRead / 4
	}
	g.Permuted = s.GroupOf != nil
	mem := takeScratch()
	defer mem.release()
	for len(dst) > 0 {
		n := min(step, uint64(len(dst)))
		off, size := g.Codes(first, n)
		p := dequant.Parts{GroupOf: s.GroupOf}
		if codes != nil {
			p.Codes = codes[off-firstByte:][:size]
		} else {
			mem.codes = content.Grown(mem.codes, size)
			p.Codes = mem.codes
			if err := v.Codes.ReadAt(ctx, env, p.Codes, off); err != nil {
				return v.WrapError(err)
			}
		}
		from, count := g.Scales(first, n)
		if !hasAllScales {
			mem.Floats = content.Grown(mem.Floats, 2*count)
			if s, err = v.Scales.Read(ctx, env, mem, from, count); err != nil {
				return err
			}
		}
		p.Scales, p.Offsets = s.ofGroups(from, count)
		if err := g.Expand(dst[:n], p, first, dequant.AllCores); err != nil {
			return err
		}
		dst, first = dst[n:], first+n
	}
	return nil
}

// codesInMemory returns memory with the codes of n values from element first on. firstByte says at which byte of all codes the memory
// begins. If View has the codes, it returns them. If View has none, and the codes lie one behind the other, it returns nil: Read then
// reads them. If they lie scattered, it returns all codes, from the cache. It fails if reading does.
func (v *Grouped) codesInMemory(ctx context.Context, env content.Env, g *dequant.Grouped, first, n uint64) (b []byte, firstByte uint64, err error) {
	off, size := g.Codes(first, n) // the bytes from the first code to the last
	b, err = v.Codes.View(ctx, env, off, size)
	if b != nil || err != nil || g.Dense(first, n) {
		return b, off, err
	}
	b, err = v.Codes.All(ctx, env, v.Codes.Content)
	return b, 0, err
}
