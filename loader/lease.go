package loader

import (
	"fmt"

	"github.com/tensormap/tensormap/loader/internal/cache"
)

// Lease keeps a model's memory in place while a piece of work, such as one request of a
// server, uses it. Tensors taken from the lease work until its release, even when the
// model is closed meanwhile.
//
// A lease pins in the model's cache what its tensors handed out: copies from Bytes and View,
// values from Float32s. It also pins packed tensors (layout.Protobuf) of which ReadAt,
// DequantizeRange and the like read a part, since a part costs as much as the whole: those that
// the cache does not have yet. WriteTo, Values and Chunks pin nothing beyond their end. Work on many such tensors takes a lease for
// each, or its memory grows with their number.
type Lease struct {
	model  *Model
	brief  bool   // taken by one call for itself, with no view of it left afterwards
	within *Lease // that a brief one was taken in, or nil
	gate   gate
	pins   cache.Pins
}

// Acquire takes a lease, or answers ErrClosed. Every lease must be released.
func (m *Model) Acquire() (*Lease, error) {
	if !m.gate.enter() {
		return nil, m.closedError()
	}
	if !m.leases.enter() {
		m.leave()
		return nil, m.closedError()
	}
	return &Lease{model: m}, nil
}

// Release ends the lease. Calls that are still running through it finish first, without
// Release waiting for them. A second Release does nothing.
func (l *Lease) Release() {
	if _, last := l.gate.close(); last {
		l.finish()
	}
}

func (l *Lease) finish() {
	l.model.cache.Unpin(&l.pins)
	if l.within != nil {
		l.within.leave()
		return
	}
	if !l.brief && l.model.leases.leave() {
		l.model.from.end()
	}
	l.model.leave()
}

func (l *Lease) leave() {
	if l.gate.leave() {
		l.finish()
	}
}

func (l *Lease) closedError() error {
	return fmt.Errorf("%s: lease: %w", l.model.path, ErrClosed)
}
