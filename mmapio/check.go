package mmapio

import (
	"context"
	"errors"
	"math"
)

// Check makes the mapping ask check before it hands out bytes: n of them at off. An error of check is
// then the answer, as it is. ctx is that of the call. Check must be called before the mapping is used by
// others. Bytes and Probe do not ask.
func (m *Mapping) Check(check func(ctx context.Context, off, n uint64) error) { m.check = check }

// Verify asks the mapping's check about n bytes at off, if it has one. It brings bytes of a mapping
// that fills.
func (m *Mapping) Verify(ctx context.Context, off, n uint64) error {
	if m.check == nil || !m.holds(off, n) || m.fill != nil && !m.Aliased() {
		return nil
	}
	return m.check(ctx, off, n)
}

// Unchecked calls f with the n bytes at off, piece by piece and in order, without asking the mapping's
// check. The pieces are of the mapping itself, or of one buffer that is used again. Bytes of a mapping
// that fills are brought first.
func (m *Mapping) Unchecked(ctx context.Context, off, n uint64, f func(b []byte)) error {
	if m.fill != nil && m.holds(off, n) {
		if err := m.fill(ctx, off, n); err != nil {
			return err
		}
	}
	return m.use("read", off, n, func(b *backing) error {
		if b.r == nil {
			return Guard(func() error {
				f(b.data[off : off+n : off+n])
				return nil
			})
		}
		const most = 1 << 20
		buf := AlignedBytes(int(min(most, n)))
		for n > 0 {
			piece := buf[:min(most, n)]
			if _, err := b.readAt(ctx, piece, off); err != nil {
				return err
			}
			f(piece)
			off, n = off+uint64(len(piece)), n-uint64(len(piece))
		}
		return nil
	})
}

// Private returns a Mapping of memory that belongs to this process alone, as large as m, and the memory
// to write to. The caller fills the memory in a check. It is zeros at first, and takes
// room only where it was written to, on systems that can map. Close closes m too.
func (m *Mapping) Private() (private *Mapping, memory []byte, err error) {
	if m.size > math.MaxInt {
		return nil, nil, pathError("copy", m.path, ErrTooLarge)
	}
	b, free, err := anonymous(int(m.size))
	if err != nil {
		return nil, nil, pathError("copy", m.path, err)
	}
	private = newMapping(m.path, m.size, &backing{data: b[:len(b):len(b)], close: func() error {
		return errors.Join(free(), m.Close())
	}})
	private.opened = m.opened
	return private, b, nil
}
