package loader

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
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
	// Progress, if set, is called with the number of bytes that are there and the number of all bytes: from
	// one goroutine at a time, with done never falling.
	Progress func(done, total uint64)
}

// WarmResult says what Warm has done.
type WarmResult struct {
	// Bytes counts the stored bytes of the tensors and the padding between neighbours. Bytes of a
	// mapped file that several tensors share count once.
	Bytes uint64
	// Resident counts the bytes among them that were in memory before, as [mmapio.Mapping.Resident] and
	// the model's cache know it. It is 0 for a mapped file if the platform does not tell.
	Resident uint64
}

// Warm reads the named tensors into memory before they are needed, each once. Without names it
// does nothing.
//
// For a mapped model it fills the page cache and maps the pages, so that touching them does not
// wait. A page fault blocks a thread that the Go scheduler believes to be running. On a busy
// server that delays requests that have nothing to do with the model. Warm's readers wait in
// system calls instead, which the scheduler knows of, and ask for large ranges in order. The kernel
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
	return warm(ctx, m, nil, func() ([]Tensor, error) { return m.tensorsToWarm(names, nil) }, opts)
}

// WarmAll warms all tensors, in the order in which they are stored.
func (m *Model) WarmAll(ctx context.Context, opts *WarmOptions) (WarmResult, error) {
	return warm(ctx, m, nil, func() ([]Tensor, error) { return m.allStored(), nil }, opts)
}

// Warm does what Model.Warm does, and pins the tensors in the cache until the lease is released,
// whatever Options.CacheBytes allows. Tensors that are read in place need no pin. Once Float32s of the lease has
// expanded a tensor, its values are pinned instead of its elements.
func (l *Lease) Warm(ctx context.Context, names []string, opts *WarmOptions) (WarmResult, error) {
	return warm(ctx, l.model, l, func() ([]Tensor, error) { return l.model.tensorsToWarm(names, l) }, opts)
}

// tensorsToWarm returns the stored tensors that the named ones consist of, each once. They belong to the lease l, which may be nil. If the
// cache has the values of a logical tensor, tensorsToWarm leaves out that tensor's parts, and pins the values for l. It fails with
// ErrNotFound for an unknown name.
func (m *Model) tensorsToWarm(names []string, l *Lease) ([]Tensor, error) {
	tensors, err := m.tensorsNamed(names, l) // none after an error
	return storedOf(slices.DeleteFunc(tensors, func(t Tensor) bool {
		if !t.isLogical() {
			return false
		}
		_, ok := m.cache.Peek(t.state().values.Key, l.pinsOf())
		return ok
	})), err
}

// storedOf returns the stored tensors that the given tensors consist of, each once: the parts of logical ones, and others as they are.
func storedOf(tensors []Tensor) (stored []Tensor) {
	seen := make(map[Tensor]bool)
	for _, t := range tensors {
		for part := range t.storedTensors() {
			if !seen[part] {
				seen[part] = true
				stored = append(stored, part)
			}
		}
	}
	return stored
}

// warm reads the stored tensors that find returns into memory: pages of tensors that are read in place, and the elements of the others
// into the model's cache. It holds the lease l open until it returns, or the model if l is nil. It fails if find, planning, reading or
// decoding does, when ctx ends, or if a file has changed since it was opened.
func warm(ctx context.Context, m *Model, l *Lease, find func() ([]Tensor, error), opts *WarmOptions) (WarmResult, error) {
	return readWhileOpen(ctx, m, l, func(ctx context.Context) (WarmResult, error) {
		tensors, err := find()
		if err != nil {
			return WarmResult{}, err
		}
		w, err := m.planWarming(ctx, opts, tensors)
		if err != nil {
			return w.result, err
		}
		err = w.plan.EachRange(ctx, w.readers, func(ctx context.Context, r *plan.Range) error {
			if r.Tensors == nil {
				return w.fillPages(ctx, r)
			}
			buf := requestBuffers.Get().(*[]byte)
			defer requestBuffers.Put(buf)
			var reported atomic.Uint64
			stored, err := w.fetch(ctx, r, buf, &reported)
			if err != nil {
				return err
			}
			for _, i := range r.Tensors {
				t := tensors[i]
				from, err := elementsToWarm(ctx, t, stored(t.desc()))
				if err == nil {
					_, err = t.state().elements.All(ctx, content.Env{Pins: t.lease.pinsOf().ForWarming()}, from)
				}
				if err != nil {
					return t.wrap(err)
				}
			}
			if left := r.N - reported.Load(); left > 0 {
				w.progress.Add(left)
			}
			return nil
		})
		if err == nil {
			err = checkFilesUnchanged(tensors)
		}
		return w.result, err
	})
}

// planWarming plans to read the tensors. Unless opts.Ordered is set, it sorts the slice tensors by file and offset. It reports to
// opts.Progress the bytes of tensors that the cache has. It fails if a tensor cannot be read, or if asking the system which pages are in
// memory fails on a platform that can tell. It fails with ErrTooLarge if the cache cannot take the tensors.
func (m *Model) planWarming(ctx context.Context, opts *WarmOptions, tensors []Tensor) (*warming, error) {
	if opts == nil {
		opts = &WarmOptions{}
	}
	w := &warming{tensors: tensors, plan: plan.New(opts.BytesPerSecond)}
	if err := m.checkWarmable(tensors); err != nil {
		return w, err
	}
	if !opts.Ordered {
		sortStored(tensors)
	}
	var cached uint64 // bytes of tensors that the cache has
	for i, t := range tensors {
		switch f := t.file(); {
		case t.inPlace():
			w.plan.Add(f, t.desc().Offset, t.desc().Stored)
		case isCached(t):
			cached += t.desc().Stored
		default:
			w.plan.AddTensor(f, t.desc().Offset, t.desc().Stored, i)
		}
	}
	if w.readers = opts.Readers; w.readers <= 0 {
		w.readers = 8
		if f := m.files[0]; f.InPlace() && !f.data.Waits() { // the files of one model are mostly alike
			w.readers = 1
		}
	}
	resident, err := w.plan.FindResident(ctx)
	w.result = WarmResult{Bytes: w.plan.Total + cached, Resident: resident + cached}
	w.progress = parallel.Progress{Report: opts.Progress, Total: w.result.Bytes}
	if err == nil && cached > 0 {
		w.progress.Add(cached)
	}
	return w, err
}

// checkWarmable returns an error if a tensor cannot be read, or is larger than the limit for one tensor. It returns ErrTooLarge if the
// tensors need more than Options.CacheBytes: it adds up their elements' bytes, and names the tensor at which the sum exceeds the cache. Two
// kinds of tensors do not count. A tensor that is read in place needs no cache, and the pins of a lease may exceed the cache.
func (m *Model) checkWarmable(tensors []Tensor) error {
	cacheLeft := uint64(max(m.opts.CacheBytes, 0))
	for _, t := range tensors {
		if t.inPlace() {
			continue
		}
		raw := t.desc().Raw
		err := cmp.Or(t.file().checkReadable(t.desc()), m.cacheStore.Limit.Allow(max(raw, t.desc().Stored), 1))
		isPinned := t.lease != nil // whatever Options.CacheBytes allows
		if !isPinned {
			if err == nil && raw > cacheLeft {
				err = fmt.Errorf("%w: with the tensors before it in the plan, more than the cache of %d bytes can keep (Options.CacheBytes)",
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
	return m.whileOpen(context.Background(), nil, func(context.Context) error {
		tensors, err := m.tensorsNamed(names, nil)
		if err != nil {
			return err
		}
		for _, t := range tensors {
			if t.isLogical() {
				m.cache.Drop(nil, t.index, cache.Logical, cache.Scales, cache.Constants)
			}
		}
		stored := storedOf(tensors)
		sortStored(stored) // for neighbours to release the pages that they share
		p := plan.New(0)
		p.MaxRange = math.MaxInt64 // since nobody reads the ranges
		for _, t := range stored {
			m.cache.Drop(nil, t.index, cache.Elements, cache.Float32)
			if f := t.file(); f.InPlace() && f.data.Mapped() {
				p.Add(f, t.desc().Offset, t.desc().Stored)
			}
		}
		for _, r := range p.Ranges {
			if err := r.File.(*file).data.Mapping().Advise(mmapio.DontNeed, r.Off, r.N); err != nil {
				return r.File.Wrap(err)
			}
		}
		return nil
	})
}

// isCached reports whether the cache has the expanded values of the stored tensor t, or else its elements, decompressed. If t has a lease,
// isCached pins what the cache has: values in the lease's pins, and elements in its pins for warming (see cache.Pins.ForWarming).
func isCached(t Tensor) bool {
	s := t.state()
	_, ok := t.model.cache.Peek(s.values.Key, t.lease.pinsOf())
	if !ok {
		_, ok = t.model.cache.Peek(s.elements.Key, t.lease.pinsOf().ForWarming())
	}
	return ok
}

// warming is a call of Warm.
type warming struct {
	tensors  []Tensor
	plan     *plan.Plan
	readers  int
	progress parallel.Progress
	result   WarmResult
}

// fillPages brings the pages of a range r of a mapped file into memory. It first waits until the plan's rate lets the bytes through that are
// not in memory yet. It fails if reading does, or when ctx ends.
func (w *warming) fillPages(ctx context.Context, r *plan.Range) error {
	missing := r.N - r.Resident // bytes
	if err := w.plan.Wait(ctx, missing); err != nil {
		return err
	}
	isCold := missing > 0
	if err := r.File.(*file).data.Warm(ctx, r.Off, r.N, isCold); err != nil {
		return r.File.Wrap(err)
	}
	w.progress.Add(r.N)
	return nil
}

// fetch returns stored, a function from each tensor of r to a content: the tensor's stored bytes.
//
// If r is in a remote file and has at most w.plan.MaxRange bytes, fetch waits until the plan's rate lets r.N bytes through. It then reads
// all of them into *buf by one request, and the contents lie in *buf. Otherwise fetch reads nothing, and the content reads when it is asked
// to (see warmingContent). A larger range holds one tensor: its content adds to reported the bytes that it has reported to w.progress.
// fetch fails if reading does, or when ctx ends.
func (w *warming) fetch(ctx context.Context, r *plan.Range, buf *[]byte, reported *atomic.Uint64) (stored func(*layout.Tensor) content.Content, err error) {
	f := r.File.(*file)
	if !f.data.Remote() || r.N > w.plan.MaxRange {
		return func(desc *layout.Tensor) content.Content { return &warmingContent{f.stored(desc), w, reported} }, nil
	}
	if err := w.plan.Wait(ctx, r.N); err != nil {
		return nil, err
	}
	last := w.tensors[r.Tensors[len(r.Tensors)-1]].desc()
	stored, err = f.fetch(ctx, buf, w.tensors[r.Tensors[0]].desc(), 0, last, last.Stored)
	return stored, f.Wrap(err)
}

// elementsToWarm returns the elements of t, whose stored bytes are the content stored. If t is compressed and stored is not in memory, it
// first reads all stored bytes into memory: otherwise finding the blocks would take more requests. It fails if reading does.
func elementsToWarm(ctx context.Context, t Tensor, stored content.Content) (content.Content, error) {
	if !isRaw(t.desc()) && !stored.Cost().InPlace() {
		b, err := content.Bytes(ctx, content.Env{}, stored, t.model.cacheStore.Limit)
		if err != nil {
			return nil, err
		}
		stored = content.Memory(b)
	}
	return t.state().elementsFrom(t.file(), t.desc(), stored), nil
}

// warmingContent is the stored bytes of a tensor. ReadAt reads them as the plan of a warming says: by its ranges, at its rate.
type warmingContent struct {
	content.Content
	*warming
	reported *atomic.Uint64 // bytes of the tensor that ReadAt has added to progress
}

// Probe returns false for a remote file and requests nothing: reading the last byte would take a request. False is safe for any file, since
// the caller then allocates memory for the tensor as bytes arrive. For a local file Probe does what c.Content does.
func (c *warmingContent) Probe(ctx context.Context) (sizeIsSure bool, err error) {
	if c.Cost().MayWait {
		return false, nil
	}
	return c.Content.Probe(ctx)
}

// ReadAt fills p with the bytes from off on, by requests for at most the bytes of the plan's largest range. Each request waits for the
// plan's rate. ReadAt makes several requests at once if the plan has fewer ranges than readers. It fails if reading does, or when ctx ends.
func (c *warmingContent) ReadAt(ctx context.Context, env content.Env, p []byte, off uint64) error {
	each, size := c.plan.MaxRange, uint64(len(p))
	return plan.Each(ctx, max(1, c.readers/len(c.plan.Ranges)), (size+each-1)/each, func(ctx context.Context, i uint64) error {
		b := p[i*each : min((i+1)*each, size)]
		err := c.plan.Wait(ctx, uint64(len(b)))
		if err == nil {
			err = c.Content.ReadAt(ctx, env, b, off+i*each)
		}
		if err == nil && c.Size() > each { // smaller tensors are reported when their range is read
			c.reported.Add(uint64(len(b)))
			c.progress.Add(uint64(len(b)))
		}
		return err
	})
}

// pinsOf returns the pins of the lease, or nil if l is nil.
func (l *Lease) pinsOf() *cache.Pins {
	if l == nil {
		return nil
	}
	return &l.pins
}
