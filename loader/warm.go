package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensormap/tensormap/mmapio"
)

// WarmPlan says what Warm brings into memory, and how. A nil *WarmPlan and every zero field
// mean the defaults.
type WarmPlan struct {
	// Tensors are brought in this order; nil means all, file by file in the order in which
	// they are stored.
	Tensors []string
	// Readers is the number of goroutines that read; 0 means 2, which occupies a disk
	// without many requests that wait for each other, or 8 where the model is not mapped.
	Readers int
	// BytesPerSecond limits the rate of reading what is not in memory yet; 0 does not.
	BytesPerSecond uint64
	// Progress, if set, hears how many of how many bytes are there: from one goroutine at a
	// time, with done never falling.
	Progress func(done, total uint64)
}

// Warmth is what Warm has done.
type Warmth struct {
	// Bytes is what the plan asked for: the stored bytes of its tensors and the padding
	// between neighbours.
	Bytes uint64
	// Resident is how many of these were in memory before; 0 where the platform cannot tell.
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
// It reads nothing but the tensors and the padding between them, and stops when ctx is done.
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
	w := newWarming(plan)
	if err := w.admit(m, tensors); err != nil {
		return Warmth{}, err
	}
	for _, t := range tensors {
		w.add(t)
	}
	err = w.run(ctx)
	return Warmth{Bytes: w.total, Resident: w.resident.Load()}, err
}

// Prefetch is Warm of the named tensors in the order in which they are stored: what a model
// that is read over a network needs before a computation, in as few requests as can be.
func (m *Model) Prefetch(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	if m.gate.closed() {
		return m.closedError()
	}
	tensors, err := m.planned(names)
	if err != nil {
		return err
	}
	sortStored(tensors)
	ordered := make([]string, len(tensors))
	for i, t := range tensors {
		ordered[i] = t.Name()
	}
	_, err = m.Warm(ctx, &WarmPlan{Tensors: ordered})
	return err
}

// planned are the tensors called so, or all in the order in which they are stored.
func (m *Model) planned(names []string) (tensors []Tensor, err error) {
	if names == nil {
		for i := range m.tensors {
			tensors = append(tensors, m.tensor(i, nil))
		}
		sortStored(tensors)
		return tensors, nil
	}
	for _, name := range names {
		t, err := m.lookup(name, nil)
		if err != nil {
			return nil, err
		}
		tensors = append(tensors, t)
	}
	return tensors, nil
}

func sortStored(tensors []Tensor) {
	slices.SortStableFunc(tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.desc.File, b.desc.File), cmp.Compare(a.desc.Offset, b.desc.Offset))
	})
}

// warming is a plan on its way.
type warming struct {
	plan     *WarmPlan
	most     uint64 // bytes of a portion
	portions []portion
	total    uint64
	rate     rate

	next     atomic.Int64 // the portion that nobody has taken on
	resident atomic.Uint64

	mu   sync.Mutex // held while Progress is told
	done uint64
}

// portion is a run of bytes of one file that is read at once.
type portion struct {
	file   *file
	off, n uint64
	parts  []part // what of it is for which tensor; empty where the file is mapped
}

const (
	mostPortion  = 16 << 20
	leastPortion = 256 << 10
)

func newWarming(plan *WarmPlan) *warming {
	w := &warming{plan: plan, most: mostPortion, rate: rate{bytesPerSecond: plan.BytesPerSecond}}
	if plan.BytesPerSecond > 0 { // a steady trickle rather than gulps
		w.most = min(max(plan.BytesPerSecond/8, leastPortion), mostPortion)
	}
	return w
}

// admit refuses what the cache could not keep until the end.
func (w *warming) admit(m *Model, tensors []Tensor) error {
	var bytes uint64
	for _, t := range tensors {
		if t.file.mapping.Aliased() {
			continue
		}
		if err := cmp.Or(t.readable(), t.heap(t.desc.Raw, 1)); err != nil {
			return t.wrap(err)
		}
		bytes += t.desc.Raw // each at most half of the machine's memory
	}
	if budget := uint64(max(m.opts.CacheBytes, 0)); bytes > budget {
		return fmt.Errorf("%s: %w: %d bytes to be kept in a cache of %d (Options.CacheBytes)", m.path, ErrTooLarge, bytes, budget)
	}
	return nil
}

// add lays t behind what is planned so far: in the last portion as far as it belongs there.
func (w *warming) add(t Tensor) {
	off, end := t.desc.Offset, t.desc.Offset+t.desc.Stored
	mapped := t.file.mapping.Aliased()
	var l *load
	if !mapped {
		l = newLoad(t)
	}
	for off < end {
		p := w.portionFor(t.file, off)
		if p.off+p.n >= end && mapped {
			return // inside another tensor, whose alias t is
		}
		n := min(end-off, w.most-min(w.most, off-p.off))
		if l != nil {
			p.parts = append(p.parts, part{load: l, at: off - t.desc.Offset, gap: off - (p.off + p.n), n: n})
		}
		w.total += off + n - (p.off + p.n)
		p.n = off + n - p.off
		off += n
	}
}

// portionFor is the last portion, where off continues it but for padding, or a new one.
func (w *warming) portionFor(f *file, off uint64) *portion {
	if n := len(w.portions); n > 0 {
		p := &w.portions[n-1]
		end := p.off + p.n
		inside := f.mapping.Aliased() && off >= p.off && off < end
		if p.file == f && (inside || off >= end && off-end < max(64, f.index.Align) && off-p.off < w.most) {
			return p
		}
	}
	w.portions = append(w.portions, portion{file: f, off: off})
	return &w.portions[len(w.portions)-1]
}

func (w *warming) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	readers := w.plan.Readers
	if readers <= 0 {
		readers = 2
		if len(w.portions) > 0 && !w.portions[0].file.mapping.Aliased() {
			readers = 8
		}
	}
	err := inParallel(min(readers, len(w.portions)), func() error {
		err := w.work(ctx)
		if err != nil {
			cancel(err) // what the others read is of no use
		}
		return err
	})
	return cmp.Or(context.Cause(ctx), err)
}

func (w *warming) work(ctx context.Context) error {
	for {
		i := int(w.next.Add(1) - 1)
		if i >= len(w.portions) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		p := &w.portions[i]
		resident, err := w.read(ctx, p)
		if err != nil {
			return err
		}
		w.resident.Add(resident)
		w.progress(p.n)
	}
}

func (w *warming) progress(n uint64) {
	if w.plan.Progress == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done += n
	w.plan.Progress(w.done, w.total)
}

// read brings a portion into memory, and says how much of it was there.
func (w *warming) read(ctx context.Context, p *portion) (resident uint64, err error) {
	if !p.file.mapping.Aliased() {
		return w.load(ctx, p)
	}
	mapping := p.file.mapping
	resident, err = mapping.Resident(p.off, p.n)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return 0, p.file.wrap(err)
	}
	if err := w.rate.wait(ctx, p.n-resident); err != nil {
		return 0, err
	}
	if err := mapping.Populate(p.off, p.n); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return 0, p.file.wrap(err)
	}
	return resident, nil
}

func (f *file) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", f.path, err)
}

// Release gives the memory of tensors back: the pages of a mapped model, which stay in the
// page cache as long as the kernel likes and come back when they are touched, and what the
// model's cache holds of them, unless a lease has pinned it. It is for weights that have
// been copied to a device. Pages that a tensor shares with its neighbours stay, and views
// stay valid. Without names it is all tensors.
func (m *Model) Release(names ...string) error {
	if !m.gate.enter() {
		return m.closedError()
	}
	defer m.leave()
	tensors, err := m.planned(names)
	if err != nil {
		return err
	}
	for _, t := range tensors {
		m.cache.drop(t.desc)
		if !t.file.mapping.Mapped() || t.file.mapping.Pending() {
			continue
		}
		if err := t.file.mapping.Advise(mmapio.DontNeed, t.desc.Offset, t.desc.Stored); err != nil {
			return t.wrap(err)
		}
	}
	return nil
}

// rate spreads reading over time.
type rate struct {
	bytesPerSecond uint64 // 0: as fast as it goes

	mu   sync.Mutex
	free time.Time // when all that was let through so far has had its time
}

// wait lets n bytes through when it is their time.
func (r *rate) wait(ctx context.Context, n uint64) error {
	if r.bytesPerSecond == 0 || n == 0 {
		return ctx.Err()
	}
	r.mu.Lock()
	now := time.Now()
	begin := r.free
	if begin.Before(now) {
		begin = now
	}
	r.free = begin.Add(time.Duration(float64(n) / float64(r.bytesPerSecond) * float64(time.Second)))
	r.mu.Unlock()
	timer := time.NewTimer(time.Until(begin))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
