package loader

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
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
	return m.warmNamed(ctx, nil, names, opts)
}

// warmNamed brings the named tensors into memory. It holds the lease l open meanwhile, which pins them, or the model if l is nil. It fails
// as Warm does.
func (m *Model) warmNamed(ctx context.Context, l *Lease, names []string, opts *WarmOptions) (WarmResult, error) {
	return readWhileOpen(ctx, m, l, func(ctx context.Context) (WarmResult, error) {
		tensors, err := m.tensorsToWarm(names, l)
		if err != nil {
			return WarmResult{}, err
		}
		return m.warm(ctx, opts, tensors)
	})
}

// WarmAll warms all tensors, in the order in which they are stored.
func (m *Model) WarmAll(ctx context.Context, opts *WarmOptions) (WarmResult, error) {
	return readWhileOpen(ctx, m, nil, func(ctx context.Context) (WarmResult, error) { return m.warm(ctx, opts, m.allStored()) })
}

// Warm does what Model.Warm does, and pins the tensors in the cache until the lease is released,
// whatever Options.CacheBytes allows. Tensors that are read in place need no pin. Once Float32s of the lease has
// expanded a tensor, its values are pinned instead of its elements.
func (l *Lease) Warm(ctx context.Context, names []string, opts *WarmOptions) (WarmResult, error) {
	return l.model.warmNamed(ctx, l, names, opts)
}

// tensorsToWarm returns the stored tensors that the named ones consist of, each once. They belong to the lease l, which may be nil. It
// leaves out the parts of a logical tensor whose values the cache has, and pins these values for l. It fails with ErrNotFound for an
// unknown name.
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

// warm brings stored tensors into memory: pages of those that are read in place, and the elements of the others into the model's
// cache. The caller holds the model open. warm sorts tensors by file and offset unless opts.Ordered is set. Before it reads anything,
// it fails if a tensor cannot be read, and with ErrTooLarge if the cache cannot take them. It fails if reading does, or if a file has
// changed since it was opened.
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
	w := warming{tensors: tensors, plan: plan.New(opts.BytesPerSecond)}
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
	w.progress = parallel.Progress{Report: opts.Progress, Total: w.plan.Total + cached}
	resident, err := w.plan.Resident(ctx)
	if err == nil {
		if cached > 0 {
			w.progress.Add(cached)
		}
		err = w.plan.Read(ctx, w.readers, &w.progress, w.fillPiece)
	}
	if err == nil {
		err = checkFilesUnchanged(tensors)
	}
	return WarmResult{Bytes: w.progress.Total, Resident: resident + cached}, err
}

// checkWarmable returns an error if a tensor cannot be read. It returns ErrTooLarge if the cache cannot take a tensor together with
// those before it. Tensors that are read in place need no cache. Tensors of a lease may exceed the cache, but not the limit for one
// tensor.
func (m *Model) checkWarmable(tensors []Tensor) error {
	cacheLeft := uint64(max(m.opts.CacheBytes, 0))
	for _, t := range tensors {
		if t.inPlace() {
			continue
		}
		raw := t.desc().Raw
		err := cmp.Or(t.file().checkReadable(t.desc()), m.cacheStore.Limit.Allow(max(raw, t.desc().Stored), 1))
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
		p.MaxPiece = math.MaxInt64 // since nobody reads the pieces
		for _, t := range stored {
			m.cache.Drop(nil, t.index, cache.Elements, cache.Float32)
			if f := t.file(); f.InPlace() && f.data.Mapped() {
				p.Add(f, t.desc().Offset, t.desc().Stored)
			}
		}
		for _, piece := range p.Pieces {
			if err := piece.File.(*file).data.Mapping().Advise(mmapio.DontNeed, piece.Off, piece.N); err != nil {
				return piece.File.Wrap(err)
			}
		}
		return nil
	})
}

// isCached reports whether the cache has the expanded values of the stored tensor t, or else its elements as they are stored, decompressed.
// If t has a lease, the lease pins what the cache has. Elements are pinned among those that only Warm has asked for.
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
}

// fillPiece puts the tensors of a piece into the cache. A piece is a range of a file with neighbouring tensors, or one large tensor. A
// range of a remote file comes by one request, a large tensor by several. fillPiece fails if reading or decoding does, or when ctx
// ends.
func (w *warming) fillPiece(ctx context.Context, piece *plan.Piece) error {
	f := piece.File.(*file)
	var reported atomic.Uint64
	stored := func(t Tensor) content.Content { return &warmingContent{t.file().stored(t.desc()), w, &reported} }
	if f.data.Remote() && piece.N <= w.plan.MaxPiece {
		buf := requestBuffers.Get().(*[]byte)
		defer requestBuffers.Put(buf)
		if err := w.plan.Wait(ctx, piece.N); err != nil {
			return err
		}
		last := w.tensors[piece.Tensors[len(piece.Tensors)-1]].desc()
		fetched, err := f.fetch(ctx, buf, w.tensors[piece.Tensors[0]].desc(), 0, last, last.Stored)
		if err != nil {
			return f.Wrap(err)
		}
		stored = func(t Tensor) content.Content { return fetched(t.desc()) }
	}
	for _, i := range piece.Tensors {
		t := w.tensors[i]
		if err := w.fillTensor(ctx, t, stored(t)); err != nil {
			return t.wrap(err)
		}
	}
	if left := piece.N - reported.Load(); left > 0 {
		w.progress.Add(left)
	}
	return nil
}

// fillTensor puts the elements of t into the cache, and pins them there. stored reads the stored bytes of t. It reads all bytes of a
// compressed tensor before it expands them: else finding its blocks would take more requests. It fails if reading or decoding does.
func (w *warming) fillTensor(ctx context.Context, t Tensor, stored content.Content) error {
	s := t.state()
	if !isRaw(t.desc()) && !stored.Cost().InPlace() {
		b, err := content.Bytes(ctx, content.Env{}, stored, t.model.cacheStore.Limit)
		if err != nil {
			return err
		}
		stored = content.Memory(b)
	}
	_, err := s.elements.All(ctx, content.Env{Pins: t.lease.pinsOf().ForWarming()}, s.elementsFrom(t.file(), t.desc(), stored))
	return err
}

// warmingContent is the stored bytes of a tensor. ReadAt reads them as the plan of a warming says.
type warmingContent struct {
	content.Content
	*warming
	reported *atomic.Uint64 // bytes that progress was told of
}

// Probe reports false for a remote file without asking, since that would take a request: memory is taken for the bytes that come.
func (c *warmingContent) Probe(ctx context.Context) (sizeIsSure bool, err error) {
	if c.Cost().MayWait {
		return false, nil
	}
	return c.Content.Probe(ctx)
}

// ReadAt fills p with the bytes from off on, by requests as large as pieces of the plan. It makes several at once if the
// plan has fewer pieces than readers. It fails if reading does, or when ctx ends.
func (c *warmingContent) ReadAt(ctx context.Context, env content.Env, p []byte, off uint64) error {
	each, size := c.plan.MaxPiece, uint64(len(p))
	if size <= each { // without the memory that goroutines take: the lengths of compressed blocks are many short reads
		return c.readPiece(ctx, env, p, off)
	}
	return plan.Each(ctx, max(1, c.readers/len(c.plan.Pieces)), (size+each-1)/each, func(ctx context.Context, i uint64) error {
		return c.readPiece(ctx, env, p[i*each:min((i+1)*each, size)], off+i*each)
	})
}

// readPiece fills p, at most the largest piece of the plan, with the bytes from off on, once the plan's rate allows it. It fails if reading
// does, or when ctx ends.
func (c *warmingContent) readPiece(ctx context.Context, env content.Env, p []byte, off uint64) error {
	n := uint64(len(p))
	err := c.plan.Wait(ctx, n)
	if err == nil {
		err = c.Content.ReadAt(ctx, env, p, off)
	}
	if err == nil && c.Size() > c.plan.MaxPiece { // others are reported piece by piece
		c.reported.Add(n)
		c.progress.Add(n)
	}
	return err
}

// pinsOf returns the pins of the lease, or nil if l is nil.
func (l *Lease) pinsOf() *cache.Pins {
	if l == nil {
		return nil
	}
	return &l.pins
}
