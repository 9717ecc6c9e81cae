package loader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/mmapio"
)

// WarmPlan says what Warm brings into memory, and how. A nil *WarmPlan and every zero field
// mean the defaults.
type WarmPlan struct {
	// Tensors are brought in this order, each once; nil means all, file by file in the order
	// in which they are stored. An empty list that is not nil means none.
	Tensors []string
	// Readers is the number of goroutines that read; 0 means 1, whose requests are large
	// enough to occupy a disk, or 8 where the model is not mapped.
	Readers int
	// BytesPerSecond limits the rate of reading what is not in memory yet: at no moment has
	// more been read than it allows since the beginning. 0 does not limit it. Where it is not
	// known what is in memory (see [mmapio.Mapping.Resident]), all counts.
	BytesPerSecond uint64
	// Progress, if set, hears how many of how many bytes are there: from one goroutine at a
	// time, with done never falling.
	Progress func(done, total uint64)
}

// Warmth is what Warm has done.
type Warmth struct {
	// Bytes is what the plan asked for: the stored bytes of its tensors and the padding
	// between neighbours. Of a mapped file, what several tensors share counts once.
	Bytes uint64
	// Resident is how many of these were in memory before, as [mmapio.Mapping.Resident] and
	// the model's cache know it; 0 of a mapped file where the platform does not tell.
	Resident uint64
}

// Warm brings tensors into memory before they are needed. Of a mapped model it fills the page
// cache and maps the pages, so that touching them does not wait: a page fault blocks a thread
// that the Go scheduler believes to be running, and with it, on a busy server, requests that
// have nothing to do with the model. Warm's readers wait in system calls instead, which the
// scheduler knows of, and ask for large pieces in order. What the kernel does with the pages
// later is up to it; see also [mmapio.Mapping.Lock].
//
// Of a model that is not mapped it reads the tensors into the model's cache, compressed ones
// decompressed, neighbours by one request. More than Options.CacheBytes is ErrTooLarge.
//
// It reads nothing but the tensors and the padding between them, and stops when ctx is done:
// what has come by then stays. A mapped file that has shrunk is mmapio.ErrFault. One that has
// changed otherwise since it was opened is mmapio.ErrChanged: see Model.Changed.
func (m *Model) Warm(ctx context.Context, opts *WarmPlan) (Warmth, error) {
	if !m.gate.enter() {
		return Warmth{}, m.closedError()
	}
	defer m.leave()
	if opts == nil {
		opts = &WarmPlan{}
	}
	tensors, err := m.selected(opts.Tensors, nil)
	if err != nil {
		return Warmth{}, err
	}
	return m.warm(ctx, opts, tensors)
}

// Prefetch is Warm of the named tensors in the order in which they are stored: what a model
// that is read over a network needs before a computation, in as few requests as can be.
// Without names it does nothing.
func (m *Model) Prefetch(ctx context.Context, names ...string) error {
	if !m.gate.enter() {
		return m.closedError()
	}
	defer m.leave()
	tensors, err := m.selected(append([]string{}, names...), nil)
	if err != nil {
		return err
	}
	sortStored(tensors)
	_, err = m.warm(ctx, &WarmPlan{}, tensors)
	return err
}

// Prefetch does what Model.Prefetch does, and pins the tensors in the cache until the lease is
// released, whatever Options.CacheBytes allows. Tensors that are read in place need no pin.
func (l *Lease) Prefetch(ctx context.Context, names ...string) error {
	if err := l.enter(); err != nil {
		return l.wrap(err)
	}
	defer l.leave()
	tensors, err := l.model.selected(append([]string{}, names...), l)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
	sortStored(tensors)
	_, err = l.model.warm(ctx, &WarmPlan{}, tensors)
	return err
}

// selected returns the tensors of these names, each once, or all in the order in which they are
// stored if names is nil, through the lease l if that is not nil.
func (m *Model) selected(names []string, l *Lease) (tensors []Tensor, err error) {
	if names == nil {
		for i := range m.tensors {
			tensors = append(tensors, m.tensor(i, l))
		}
		sortStored(tensors)
		return tensors, nil
	}
	seen := make(map[*layout.Tensor]bool)
	for _, name := range names {
		t, err := m.lookup(name, l)
		if err != nil {
			return nil, err
		}
		if !seen[t.desc] {
			seen[t.desc] = true
			tensors = append(tensors, t)
		}
	}
	return tensors, nil
}

func sortStored(tensors []Tensor) {
	slices.SortStableFunc(tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.desc.File, b.desc.File), cmp.Compare(a.desc.Offset, b.desc.Offset))
	})
}

func (m *Model) warm(ctx context.Context, opts *WarmPlan, tensors []Tensor) (Warmth, error) {
	if err := m.admit(tensors); err != nil {
		return Warmth{}, err
	}
	var had atomic.Uint64
	p := plan.New(opts.BytesPerSecond)
	for _, t := range tensors {
		if t.file.access() == inPlace {
			p.Add(t.file, t.desc.Offset, t.desc.Stored)
		} else {
			p.AddTarget(t.file, t.desc.Offset, t.desc.Stored, &load{tensor: t, had: &had})
		}
	}
	ctx, stop := m.from.until(ctx)
	defer stop()
	resident, err := p.Resident(ctx)
	if err == nil {
		err = p.Read(ctx, readers(opts, p), &parallel.Progress{Report: opts.Progress, Total: p.Total})
	}
	if err == nil {
		err = unchanged(p)
	}
	if context.Cause(ctx) == ErrClosed {
		err = m.closedError()
	}
	return Warmth{Bytes: p.Total, Resident: resident + had.Load()}, err
}

// readers returns the number of goroutines that read p.
func readers(opts *WarmPlan, p *plan.Plan) int {
	switch {
	case opts.Readers > 0:
		return opts.Readers
	case len(p.Pieces) > 0 && p.Pieces[0].File.(*file).access() == inPlace:
		return 1
	}
	return 8
}

// unchanged returns an error if a file that was read is not what was opened.
func unchanged(p *plan.Plan) error {
	asked := make(map[plan.File]bool)
	for i := range p.Pieces {
		if f := p.Pieces[i].File.(*file); !asked[f] {
			asked[f] = true
			if err := f.changed(); err != nil {
				return f.Wrap(err)
			}
		}
	}
	return nil
}

// admit refuses what cannot be read, and what the cache could not keep until the end.
func (m *Model) admit(tensors []Tensor) error {
	left := uint64(max(m.opts.CacheBytes, 0))
	for _, t := range tensors {
		if t.file.access() == inPlace {
			continue
		}
		if err := cmp.Or(t.readable(), t.heap(t.desc.Raw, 1), t.heap(t.desc.Stored, 1)); err != nil {
			return t.wrap(err)
		}
		if t.lease != nil {
			continue // which pins it
		}
		if t.desc.Raw > left {
			return t.wrap(fmt.Errorf("%w: with those before it in the plan, more than the cache of %d bytes can keep (Options.CacheBytes)",
				ErrTooLarge, max(m.opts.CacheBytes, 0)))
		}
		left -= t.desc.Raw
	}
	return nil
}

// Release gives the memory of tensors back: the pages of a mapped model, which stay in the
// page cache as long as the kernel likes and come back when they are touched, and what the
// model's cache holds of them, unless a lease has pinned it. It is for weights that have
// been copied to a device. Pages that a tensor shares with others that are not named stay,
// and views stay valid. Without names it does nothing; see ReleaseAll.
func (m *Model) Release(names ...string) error {
	return m.giveBack(append([]string{}, names...))
}

// ReleaseAll gives the memory of all tensors back, as Release does.
func (m *Model) ReleaseAll() error { return m.giveBack(nil) }

// giveBack releases the tensors called so, or all if names is nil.
func (m *Model) giveBack(names []string) error {
	if !m.gate.enter() {
		return m.closedError()
	}
	defer m.leave()
	tensors, err := m.selected(names, nil)
	if err != nil {
		return err
	}
	sortStored(tensors) // for neighbours to give back the pages that they share
	p := plan.Whole()
	for _, t := range tensors {
		m.cache.Drop(t.desc)
		if t.file.mapping.Mapped() && !t.file.mapping.Pending() {
			p.Add(t.file, t.desc.Offset, t.desc.Stored)
		}
	}
	for _, p := range p.Pieces {
		if err := p.File.Mapping().Advise(mmapio.DontNeed, p.Off, p.N); err != nil {
			return p.File.Wrap(err)
		}
	}
	return nil
}
