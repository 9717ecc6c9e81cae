package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
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
func (m *Model) Warm(ctx context.Context, plan *WarmPlan) (Warmth, error) {
	if !m.gate.enter() {
		return Warmth{}, m.closedError()
	}
	defer m.leave()
	if plan == nil {
		plan = &WarmPlan{}
	}
	tensors, err := m.planned(plan.Tensors)
	if err != nil {
		return Warmth{}, err
	}
	return m.warm(ctx, plan, tensors)
}

// Prefetch is Warm of the named tensors in the order in which they are stored: what a model
// that is read over a network needs before a computation, in as few requests as can be.
// Without names it does nothing.
func (m *Model) Prefetch(ctx context.Context, names ...string) error {
	if !m.gate.enter() {
		return m.closedError()
	}
	defer m.leave()
	tensors, err := m.planned(append([]string{}, names...))
	if err != nil {
		return err
	}
	sortStored(tensors)
	_, err = m.warm(ctx, &WarmPlan{}, tensors)
	return err
}

// planned are the tensors called so, each once, or all in the order in which they are stored.
func (m *Model) planned(names []string) (tensors []Tensor, err error) {
	if names == nil {
		for i := range m.tensors {
			tensors = append(tensors, m.tensor(i, nil))
		}
		sortStored(tensors)
		return tensors, nil
	}
	seen := make(map[*layout.Tensor]bool)
	for _, name := range names {
		t, err := m.lookup(name, nil)
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

func (m *Model) warm(ctx context.Context, plan *WarmPlan, tensors []Tensor) (Warmth, error) {
	w := warming{plan: plan, rate: rate{bytesPerSecond: plan.BytesPerSecond}, portions: newPortions(plan.BytesPerSecond)}
	if err := w.admit(m, tensors); err != nil {
		return Warmth{}, err
	}
	for _, t := range tensors {
		w.add(t)
	}
	w.progress = parallel.Progress{Report: plan.Progress, Total: w.total}
	ctx, stop := m.untilClosed(ctx)
	defer stop()
	err := w.look(ctx)
	if err == nil {
		err = w.run(ctx)
	}
	if err == nil {
		err = w.changed()
	}
	if context.Cause(ctx) == ErrClosed {
		err = m.closedError()
	}
	return Warmth{Bytes: w.total, Resident: w.resident.Load()}, err
}

// warming is a plan on its way.
type warming struct {
	plan *WarmPlan
	portions
	rate rate

	resident atomic.Uint64
	progress parallel.Progress // in bytes of portions
}

// changed returns an error if a file that was read is not what was opened.
func (w *warming) changed() error {
	asked := make(map[*file]bool)
	for i := range w.list {
		if f := w.list[i].file; !asked[f] {
			asked[f] = true
			if err := f.changed(); err != nil {
				return f.wrap(err)
			}
		}
	}
	return nil
}

// admit refuses what cannot be read, and what the cache could not keep until the end.
func (w *warming) admit(m *Model, tensors []Tensor) error {
	left := uint64(max(m.opts.CacheBytes, 0))
	for _, t := range tensors {
		if t.file.mapping.Aliased() {
			continue
		}
		if err := cmp.Or(t.readable(), t.heap(t.desc.Raw, 1), t.heap(t.desc.Stored, 1)); err != nil {
			return t.wrap(err)
		}
		if t.desc.Raw > left {
			return t.wrap(fmt.Errorf("%w: with those before it in the plan, more than the cache of %d bytes can keep (Options.CacheBytes)",
				ErrTooLarge, max(m.opts.CacheBytes, 0)))
		}
		left -= t.desc.Raw
	}
	return nil
}

// look finds out what of mapped files is in memory, before any reading, which brings the
// kernel to read ahead.
func (w *warming) look(ctx context.Context) error {
	for i := range w.list {
		p := &w.list[i]
		if !p.file.mapping.Aliased() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := p.file.mapping.Resident(p.off, p.n)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return p.file.wrap(err)
		}
		p.resident = n
		w.resident.Add(n)
	}
	return nil
}

func (w *warming) run(ctx context.Context) error {
	reading, stop := context.WithCancelCause(ctx) // once one has failed, the others read in vain
	defer stop(nil)
	err := parallel.Each(w.readers(), parallel.Range(uint64(len(w.list))), func(items iter.Seq[uint64]) error {
		returned := false
		defer func() {
			if !returned { // but panicked
				stop(nil)
			}
		}()
		err := w.work(reading, items)
		returned = true
		if err != nil {
			stop(err)
			err = context.Cause(reading) // the first to fail, not whom that has cancelled
		}
		return err
	})
	return cmp.Or(context.Cause(ctx), err)
}

func (w *warming) work(ctx context.Context, items iter.Seq[uint64]) error {
	for i := range items {
		p := &w.list[i]
		if err := cmp.Or(ctx.Err(), mmapio.Guard(func() error { return w.read(ctx, p) })); err != nil {
			return err
		}
		w.progress.Add(p.n)
	}
	return nil
}

func (w *warming) readers() int {
	switch {
	case w.plan.Readers > 0:
		return w.plan.Readers
	case len(w.list) > 0 && w.list[0].file.mapping.Aliased():
		return 1
	}
	return 8
}

// read brings a portion into memory.
func (w *warming) read(ctx context.Context, p *portion) error {
	if !p.file.mapping.Aliased() {
		return w.load(ctx, p)
	}
	if err := w.rate.wait(ctx, p.n-p.resident); err != nil {
		return err
	}
	return p.file.wrap(p.populate())
}

// populate reads a portion of a mapped file. Announced first, it is on its way in as large
// requests as the device takes, and nothing else is: faults alone would read small pieces and
// then ahead, by how the device is set up.
func (p *portion) populate() error {
	mapping := p.file.mapping
	if p.resident < p.n {
		mapping.Advise(mmapio.WillNeed, p.off, p.n) // Populate does without, too
	}
	return mapping.Populate(p.off, p.n)
}

func (f *file) wrap(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &fileError{f.path, err}
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
	tensors, err := m.planned(names)
	if err != nil {
		return err
	}
	sortStored(tensors) // for neighbours to give back the pages that they share
	var p portions
	p.most = 1 << 62
	for _, t := range tensors {
		m.cache.Drop(t.desc)
		if t.file.mapping.Mapped() && !t.file.mapping.Pending() {
			p.add(t)
		}
	}
	for _, p := range p.list {
		if err := p.file.mapping.Advise(mmapio.DontNeed, p.off, p.n); err != nil {
			return p.file.wrap(err)
		}
	}
	return nil
}
