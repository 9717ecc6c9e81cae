package loader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/mmapio"
)

// WarmOptions tune Warm and WarmAll. A nil *WarmOptions and every zero field mean the defaults.
type WarmOptions struct {
	// Ordered reads the tensors in the order of names. Otherwise they are read as they are stored,
	// which takes the fewest requests.
	Ordered bool
	// Readers is the number of goroutines that read. 0 means 1 for a mapped model, whose requests
	// are large enough to occupy a disk, and 8 for others.
	Readers int
	// BytesPerSecond limits the rate of reading: at no moment has more been read than it allows
	// since the beginning. 0 sets no limit. Bytes known to be in memory do not count (see
	// [mmapio.Mapping.Resident]).
	BytesPerSecond uint64
	// Progress, if set, is called with the number of bytes that are there and that of all bytes: from
	// one goroutine at a time, with done never falling.
	Progress func(done, total uint64)
}

// WarmResult says what Warm has done.
type WarmResult struct {
	// Bytes counts the stored bytes of the tensors and the padding between neighbours. Bytes of a
	// mapped file that several tensors share count once.
	Bytes uint64
	// Resident counts those of Bytes that were in memory before, as [mmapio.Mapping.Resident] and
	// the model's cache know it. It is 0 for a mapped file if the platform does not tell.
	Resident uint64
}

// Warm brings the named tensors into memory before they are needed, each once. Without names it
// does nothing.
//
// For a mapped model it fills the page cache and maps the pages, so that touching them does not
// wait. A page fault blocks a thread that the Go scheduler believes to be running. On a busy
// server that delays requests that have nothing to do with the model. Warm's readers wait in
// system calls instead, which the scheduler knows of, and ask for large pieces in order. The kernel
// may drop the pages again; see also [mmapio.Mapping.Lock].
//
// Tensors of a model that is not mapped go into its cache, compressed ones decompressed, neighbours
// by one request. More than Options.CacheBytes is ErrTooLarge. A tensor whose values the cache has, by
// Float32s, counts as there: its elements are not fetched.
//
// Warm reads nothing but the tensors and the padding between them, and stops when ctx is done:
// pages and tensors that are there by then stay. A mapped file that has shrunk is mmapio.ErrFault. One that has
// changed otherwise since it was opened is ErrChanged: see Model.Changed.
func (m *Model) Warm(ctx context.Context, names []string, opts *WarmOptions) (WarmResult, error) {
	return warm(ctx, m, names, opts, nil)
}

// warm brings the named tensors into memory. It keeps h open meanwhile: the lease l, which pins them, or the model if l is nil.
func warm(ctx context.Context, h holder, names []string, opts *WarmOptions, l *Lease) (WarmResult, error) {
	return readWhileOpen(ctx, h, func(ctx context.Context, m *Model) (WarmResult, error) {
		tensors, err := m.tensorsToWarm(names, l)
		if err != nil {
			return WarmResult{}, err
		}
		return m.warm(ctx, opts, tensors)
	})
}

// WarmAll warms all tensors, in the order in which they are stored.
func (m *Model) WarmAll(ctx context.Context, opts *WarmOptions) (WarmResult, error) {
	return readWhileOpen(ctx, m, func(ctx context.Context, m *Model) (WarmResult, error) { return m.warm(ctx, opts, m.allStored()) })
}

// Warm does what Model.Warm does, and pins the tensors in the cache until the lease is released,
// whatever Options.CacheBytes allows. Tensors that are read in place need no pin. Once Float32s of the lease has
// expanded a tensor, its values are pinned instead of its elements.
func (l *Lease) Warm(ctx context.Context, names []string, opts *WarmOptions) (WarmResult, error) {
	return warm(ctx, l, names, opts, l)
}

// tensorsToWarm returns the stored tensors that the named ones consist of, each once. They belong to the lease l, which may be nil. It leaves out
// the parts of a logical tensor whose values the cache has, and pins these values for l. It fails with ErrNotFound for an unknown name.
func (m *Model) tensorsToWarm(names []string, l *Lease) ([]Tensor, error) {
	tensors, err := m.tensorsNamed(names, l)()
	return m.storedOf(slices.DeleteFunc(tensors, func(t Tensor) bool {
		if !t.isLogical() {
			return false
		}
		_, ok := m.cache.Peek(t.state().values.Key, l.pinsOf())
		return ok
	})), err
}

// storedOf returns the stored tensors that the given tensors consist of, each once: the parts of logical ones, and others as they are.
func (m *Model) storedOf(tensors []Tensor) (stored []Tensor) {
	seen := make(map[uint32]bool)
	for _, t := range tensors {
		for _, i := range t.storedTensors() {
			if !seen[i] {
				seen[i] = true
				stored = append(stored, Tensor{model: m, lease: t.lease, index: i})
			}
		}
	}
	return stored
}

// allStored returns all stored tensors of the model, by file and offset.
func (m *Model) allStored() []Tensor {
	tensors := make([]Tensor, len(m.tensors))
	for i := range tensors {
		tensors[i] = Tensor{model: m, index: uint32(i)}
	}
	sortStored(tensors)
	return tensors
}

// warm brings stored tensors into memory: the pages of those that are read in place, and the others into the cache. The caller holds
// the model open. It fails with ErrTooLarge, before it reads anything, if the cache cannot take them. It also fails if reading does, if a
// file has changed, or with ErrClosed.
func (m *Model) warm(ctx context.Context, opts *WarmOptions, tensors []Tensor) (WarmResult, error) {
	if opts == nil {
		opts = &WarmOptions{}
	}
	if err := m.checkWarmable(tensors); err != nil {
		return WarmResult{}, err
	}
	if !opts.Ordered {
		sortStored(tensors)
	}
	var alreadyCached atomic.Uint64
	p := plan.New(opts.BytesPerSecond)
	for _, t := range tensors {
		if f := t.file(); t.inPlace() {
			p.Add(f, t.desc().Offset, t.desc().Stored)
		} else {
			p.AddTarget(f, t.desc().Offset, t.desc().Stored, &warmingTensor{tensor: t, cachedBytes: &alreadyCached})
		}
	}
	resident, err := p.Resident(ctx)
	if err == nil {
		err = p.Read(ctx, readersFor(opts, p), &parallel.Progress{Report: opts.Progress, Total: p.Total})
	}
	if err == nil {
		err = checkPlanUnchanged(p)
	}
	if context.Cause(ctx) == ErrClosed {
		err = m.closedError()
	}
	return WarmResult{Bytes: p.Total, Resident: resident + alreadyCached.Load()}, err
}

// readersFor returns the number of goroutines that read the plan p: opts.Readers if that is set. Otherwise it returns 1 if the first piece
// is of a mapped file of this system, else 8.
func readersFor(opts *WarmOptions, p *plan.Plan) int {
	switch {
	case opts.Readers > 0:
		return opts.Readers
	case len(p.Pieces) > 0:
		if f := p.Pieces[0].File.(*file); f.InPlace() && !f.data.Waits() {
			return 1
		}
	}
	return 8
}

// checkPlanUnchanged returns an error, with the file's name, if a file that p reads is no longer the one that was opened. It asks the
// system once for each file.
func checkPlanUnchanged(p *plan.Plan) error {
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

// checkWarmable returns an error if a tensor cannot be read, and ErrTooLarge if the cache cannot take it together with
// those before it. It leaves out tensors that are read in place. Those of a lease may exceed the cache, but not the limit for one tensor.
func (m *Model) checkWarmable(tensors []Tensor) error {
	cacheLeft := uint64(max(m.opts.CacheBytes, 0))
	for _, t := range tensors {
		if t.inPlace() {
			continue
		}
		raw := t.desc().Raw
		err := cmp.Or(t.state().elementsErr, m.cacheStore.Limit.Allow(max(raw, t.desc().Stored), 1))
		if t.lease == nil { // a lease would pin the tensor, beyond the budget if need be
			if err == nil && raw > cacheLeft {
				err = fmt.Errorf("%w: with those before it in the plan, more than the cache of %d bytes can keep (Options.CacheBytes)",
					ErrTooLarge, max(m.opts.CacheBytes, 0))
			}
			cacheLeft -= raw
		}
		if err != nil {
			return t.wrap(err)
		}
	}
	return nil
}

// Evict releases the memory of tensors: the pages of a mapped model, and the copies in the model's cache that no lease
// has pinned. It is for weights that have been copied to a device. Pages stay in the page cache as long as the kernel
// likes, and come back when they are touched. Pages that a tensor shares with others that are not named stay, and
// views stay valid. Without names Evict does nothing. It fails for an unknown name, or if the system does.
func (m *Model) Evict(names ...string) error {
	return whileOpen(context.Background(), m, func(_ context.Context, m *Model) error {
		tensors, err := m.tensorsNamed(names, nil)()
		if err != nil {
			return err
		}
		for _, t := range tensors {
			if t.isLogical() {
				m.cache.Drop(t.index, cache.Logical, cache.Scales, cache.Constants)
			}
		}
		stored := m.storedOf(tensors)
		sortStored(stored) // for neighbours to release the pages that they share
		p := plan.NewUnlimited()
		for _, t := range stored {
			m.cache.Drop(t.index, cache.Elements, cache.Float32)
			if f := t.file(); f.InPlace() && f.data.Mapped() {
				p.Add(f, t.desc().Offset, t.desc().Stored)
			}
		}
		for _, p := range p.Pieces {
			if err := p.File.(*file).data.Mapping().Advise(mmapio.DontNeed, p.Off, p.N); err != nil {
				return p.File.Wrap(err)
			}
		}
		return nil
	})
}

// warmingTensor is a tensor that Warm reads into the cache. Several readers may bring its bytes.
type warmingTensor struct {
	tensor      Tensor
	cachedBytes *atomic.Uint64 // counts bytes that the cache has already

	once      sync.Once
	gathering *mmapio.Gathering[byte] // nil if the cache has the tensor
	memoryErr error                   // why there is no memory
}

// isCached reports whether the cache has the values or the elements of the tensor, and pins them for its lease.
func (l *warmingTensor) isCached() bool {
	m, s := l.tensor.model, l.tensor.state()
	if _, ok := m.cache.Peek(s.values.Key, l.tensor.lease.pinsOf()); ok {
		return true
	}
	_, ok := m.cache.Peek(s.elements.Key, l.tensor.lease.warmPins())
	return ok
}

// Memory returns memory for n stored bytes of the tensor, from byte at on. If the cache has the tensor at the first call, all calls
// return nil, and count the bytes in l.cachedBytes. It fails if there is no memory, or if the file lacks the tensor's bytes.
func (l *warmingTensor) Memory(at, n uint64) ([]byte, error) {
	l.once.Do(func() {
		if l.isCached() {
			return
		}
		stored := l.tensor.state().stored
		allExist := func() (sure bool, err error) {
			if stored.Cost().MayWait {
				return false, nil // a probe would take a request: without it, memory is taken as bytes come
			}
			return stored.Probe(context.Background())
		}
		l.gathering, l.memoryErr = mmapio.NewGathering[byte](stored.Size(), allExist)
	})
	switch {
	case l.memoryErr != nil:
		return nil, l.tensor.wrap(l.memoryErr)
	case l.gathering == nil:
		l.cachedBytes.Add(n)
		return nil, nil
	}
	return l.gathering.Room(at, n), nil
}

// Filled notes that b, memory from Memory for the tensor's stored bytes from at on, has been filled. After the last bytes it puts
// the tensor's elements into the cache. It waits, until ctx ends, for another call that fills the same entry. It fails if
// elements cannot be decompressed, or take too much memory. Its errors name the tensor.
func (l *warmingTensor) Filled(ctx context.Context, at uint64, b []byte) error {
	all, err := l.gathering.Arrived(at, b)
	if err == nil && all {
		stored := content.Memory(l.gathering.Whole())
		l.gathering = nil
		t := l.tensor
		s := t.state()
		err = s.elements.Put(ctx, content.Env{Pins: t.lease.warmPins()}, s.elementsFrom(t.file(), t.desc(), stored))
	}
	return l.tensor.wrap(err)
}

// pinsOf returns the pins of the lease, or nil if l is nil.
func (l *Lease) pinsOf() *cache.Pins {
	if l == nil {
		return nil
	}
	return &l.pins
}

// warmPins returns the pins of elements that only Warm has asked for through the lease, or nil if l is nil. It sets l.hasWarmed, since the
// caller may pin some.
func (l *Lease) warmPins() *cache.Pins {
	if l == nil {
		return nil
	}
	l.hasWarmed.Store(true)
	return &l.warmedPins
}
