package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/loader/internal/values"
	"github.com/tensormap/tensormap/mmapio"
)

// streamFile is a file that Stream reads.
type streamFile struct {
	*file
	position int          // in Model.Files
	backing  Backing      // that the caller has asked for
	left     atomic.Int64 // loads and parts that are not yet read, and tensors that are not yet planned

	mapped, read, direct atomic.Uint64 // bytes that came so

	mu       sync.Mutex
	chosen   bool
	way      Backing  // for bytes that are not read direct
	refused  bool     // a direct read has failed
	cached   *os.File // reads it through the page cache; nil if the model's own file does
	uncached *os.File // reads it past the page cache; or nil
	cachedAt []bool   // whether each residencyStep was in the page cache before; only for BackingAuto
	why      string
}

// read fills a buffer with a load.
func (p *streamPlan) read(ctx context.Context, l *load, b []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if l.file == nil {
		for i := range l.parts {
			part := &l.parts[i]
			err := p.make(ctx, part, b)
			part.of.from.loaded()
			if err != nil {
				return part.of.wrap(err)
			}
		}
		return nil
	}
	defer func() {
		for i := range l.parts {
			p.made(l.parts[i].of)
		}
		l.file.loaded()
	}()
	way, err := l.file.place(ctx, l, b)
	if err != nil {
		return l.wrap(err)
	}
	for i := range l.parts {
		l.file.count(way, l.parts[i].n)
	}
	return nil
}

// wrap adds the names of the file and of the load's tensors to err: of all, unless err tells which one it is about. It returns
// errors of a context as they are.
func (l *load) wrap(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	first, last := l.parts[0].of, l.parts[len(l.parts)-1].of
	if first == last {
		return first.wrap(err)
	}
	if encrypted, ok := errors.AsType[*decrypted.Error](err); ok {
		for i := range l.parts {
			if of := l.parts[i].of; of.Name() == encrypted.Tensor {
				return of.wrap(err)
			}
		}
	}
	return l.file.Wrap(fmt.Errorf("tensors %q to %q: %w", first.Name(), last.Name(), err))
}

// count notes that n bytes came by a way.
func (f *streamFile) count(way Backing, n uint64) {
	switch way {
	case BackingMap:
		f.mapped.Add(n)
	case BackingDirect:
		f.direct.Add(n)
	default:
		f.read.Add(n)
	}
}

// place fills b with the bytes of a load as the file has them, and returns the way that they came.
func (f *streamFile) place(ctx context.Context, l *load, b []byte) (Backing, error) {
	way, cached, uncached := f.choose(l.off)
	if f.decrypted != nil {
		return way, f.Fill(ctx, padded(l, b), l.off)
	}
	into := b[l.lead:][:l.n]
	switch {
	case l.n == 0:
		return way, nil
	case way == BackingMap:
		return way, f.copyMapped(ctx, into, l.off)
	case cached != nil:
		return f.readLocal(cached, uncached, b, l.lead, l.n, l.off)
	}
	return way, f.data.ReadAt(ctx, into, l.off)
}

// readLocal fills b[lead:][:n] with the bytes of the file from off on, and returns the way that they came: direct if uncached is
// not nil, and that succeeds.
func (f *streamFile) readLocal(cached, uncached *os.File, b []byte, lead, n, off uint64) (Backing, error) {
	if uncached != nil {
		err := readDirect(uncached, b, lead, n, off)
		if err == nil {
			return BackingDirect, nil
		}
		f.refuse(err)
	}
	return BackingRead, mmapio.ReadFull(cached, b[lead:][:n], off)
}

// padded returns the parts of a load as memory for Fill.
func padded(l *load, b []byte) (buffers []plan.Padded) {
	at := l.lead
	for i := range l.parts {
		part := &l.parts[i]
		if part.n > 0 {
			buffers = append(buffers, plan.Padded{Gap: part.at - at, B: b[part.at:][:part.n]})
			at = part.at + part.n
		}
	}
	return buffers
}

// copyMapped fills b with bytes of a file in place, from off on. It fetches and verifies them, brings their pages into memory and
// releases the pages afterwards, some at a time.
func (f *streamFile) copyMapped(ctx context.Context, b []byte, off uint64) error {
	for len(b) > 0 {
		n := min(stepFar, uint64(len(b)))
		if err := f.bring(ctx, off, n); err != nil {
			return err
		}
		in, err := f.data.View(ctx, off, n)
		if in == nil && err == nil { // its cache has become full
			return f.data.ReadAt(ctx, b, off)
		}
		copy(b, in)
		f.leave(off, n)
		if err != nil {
			return err
		}
		b, off = b[n:], off+n
	}
	return nil
}

// bring brings the pages of n bytes at off of a file in place into memory.
func (f *file) bring(ctx context.Context, off, n uint64) error {
	resident, err := f.data.Resident(off, n)
	return f.data.Warm(ctx, off, n, err != nil || resident < n)
}

// leave releases the whole pages of n bytes at off of a mapped file. They stay in the page cache.
func (f *file) leave(off, n uint64) {
	if f.data.Mapped() {
		f.data.Mapping().Advise(mmapio.DontNeed, off, n) // an error means that they stay, as locked ones do
	}
}

// readDirect fills b[lead:][:n] with the bytes of the file from off on, by whole pages. off-lead must begin a page, and b hold
// the pages. The last page may be a part of one.
func readDirect(f *os.File, b []byte, lead, n, off uint64) error {
	const page = mmapio.DirectAlignment
	end := lead + n
	read, err := f.ReadAt(b[:min((end+page-1)&^(page-1), uint64(len(b)))], int64(off-lead))
	if uint64(read) >= end { // whatever err says, such as io.EOF
		return nil
	}
	return err
}

// residencyStep is how much of a file is taken to be in the page cache if the last residencyProbe bytes are.
const (
	residencyStep  = 8 << 20
	residencyProbe = 128 << 10
)

// residency reports for each residencyStep of the file whether it is in the page cache. It is asked before anything is read, which
// makes the system read ahead. It fails as Resident does.
func (f *streamFile) residency() (cached []bool, err error) {
	size := f.data.Size()
	for off := uint64(0); off <= size; off += residencyStep {
		n := min(residencyProbe, size-off)
		at := min(off+residencyStep, size) - n
		resident, err := f.data.Resident(at, n)
		if err != nil {
			return nil, err
		}
		cached = append(cached, resident > n/2)
	}
	return cached, nil
}

// choose returns the way for a load or a step at off, and the descriptors for it. The first call decides what is possible, and opens
// them.
func (f *streamFile) choose(off uint64) (way Backing, cached, uncached *os.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.chosen {
		f.chosen = true
		f.way, f.why = f.decide()
	}
	if f.uncached == nil || f.refused {
		return f.way, f.cached, nil
	}
	if f.backing == BackingAuto && f.cachedAt[off/residencyStep] {
		return f.way, f.cached, nil
	}
	return BackingDirect, f.cached, f.uncached
}

// decide returns the way for bytes that are not read direct, and why. It opens the descriptors.
func (f *streamFile) decide() (way Backing, why string) {
	switch inPlace := f.data.InPlace(); {
	case f.decrypted != nil:
		return BackingRead, "its tensors are encrypted"
	case inPlace && f.data.Waits():
		return BackingMap, "it fills while it is read"
	case inPlace && f.data.Digests() != nil:
		return BackingMap, "its bytes are verified in memory"
	case f.data.Digests() != nil:
		return BackingRead, "its bytes are verified as they are read"
	case inPlace && !f.data.Mapped():
		return BackingMap, "it is in memory"
	case f.reopen == nil && inPlace:
		return BackingMap, "its name does not lead to it"
	case f.reopen == nil:
		return BackingRead, "its source reads it"
	case inPlace && f.backing == BackingMap:
		return BackingMap, "asked for"
	}
	var err error
	if f.cached, err = f.reopen(); err != nil {
		way = BackingRead
		if f.data.InPlace() {
			way = BackingMap
		}
		return way, fmt.Sprintf("it cannot be opened again: %v", err)
	}
	if f.backing == BackingRead {
		return BackingRead, "asked for"
	}
	if f.backing == BackingMap {
		return BackingRead, "it is not mapped"
	}
	uncached, err := f.reopen()
	if err == nil {
		if err = mmapio.Direct(uncached); err == nil {
			f.uncached = uncached
			if f.backing == BackingDirect {
				return BackingRead, "asked for"
			}
			if f.cachedAt, err = f.residency(); err != nil {
				uncached.Close()
				f.uncached = nil
				return BackingRead, "nobody tells what is in the page cache"
			}
			return BackingRead, "bytes in the page cache are read, others direct"
		}
		uncached.Close()
	}
	return BackingRead, fmt.Sprintf("no direct reads: %v", err)
}

// refuse makes choose choose no more direct reads, since one has failed with err.
func (f *streamFile) refuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused, f.why = true, fmt.Sprintf("a direct read has failed: %v", err)
}

// loaded notes that a load or a part was read, or that all loads of a tensor are planned. After the last one it closes the descriptors.
func (f *streamFile) loaded() {
	if f.left.Add(-1) == 0 {
		f.close()
	}
}

// close closes the descriptors.
func (f *streamFile) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range []*os.File{f.cached, f.uncached} {
		if file != nil {
			file.Close()
		}
	}
	f.cached, f.uncached = nil, nil
}

// close closes all files, and unpins what is pinned. No reader is left.
func (p *streamPlan) close() {
	for _, f := range p.files {
		f.close()
	}
	for _, t := range p.tensors {
		p.model.cache.Unpin(&t.pins)
	}
}

// changed returns an error if a file that was read has changed since it was opened.
func (p *streamPlan) changed() error {
	for _, f := range p.files {
		if err := f.changed(); err != nil {
			return f.Wrap(err)
		}
	}
	return nil
}

// result says how the files were read, in the order of their positions.
func (p *streamPlan) result() (files []StreamedFile) {
	for _, f := range p.files {
		files = append(files, StreamedFile{f.position, f.mapped.Load(), f.read.Load(), f.direct.Load(), f.why})
	}
	slices.SortFunc(files, func(a, b StreamedFile) int { return a.File - b.File })
	return files
}

// How many bytes are made at once, since that takes memory of its own: of a file of this system, and of one that may wait for a
// network.
const (
	stepNear = 1 << 20
	stepFar  = 4 << 20
)

// stepCached bounds what is read from the page cache before it is converted: the processor's nearest caches hold it.
const stepCached = 72 << 10

// make fills the share of a part in a buffer. Its elements are decompressed, unpacked or expanded, a step at a time.
func (p *streamPlan) make(ctx context.Context, part *streamPart, buffer []byte) error {
	t, b := part.of, buffer[part.at:][:part.n]
	s := t.state()
	defer p.made(t)
	if t.stored != nil && part.n > 0 {
		if way, _, _ := t.from.choose(t.desc().Offset); way != BackingMap {
			return p.convert(ctx, part, b, buffer[p.outBytes:])
		}
	}
	way, why := BackingRead, "what it yields is made of reads"
	if t.inPlace() {
		way, why = BackingMap, "what it yields is made of the mapping"
	}
	t.from.count(way, part.n)
	t.from.explain(why)

	env := s.envOfParts(content.Env{}, &t.pins)
	read := func(b []byte, off uint64) error { return s.elements.ReadAt(ctx, env, b, off) }
	from := content.Content(s.elements)
	if t.as != layout.Invalid {
		from = s.values.Source()
		read = func(b []byte, off uint64) error {
			return values.ReadEncoded(ctx, env, s.values, t.as, b, off/t.block)
		}
	}
	step := stepNear
	if from.Cost().MayWait || !t.inPlace() && t.as == layout.Invalid {
		step = stepFar
	}
	if t.as != layout.Invalid {
		// Elements, their values, and what they are decompressed from take memory of their own.
		taken := t.desc().Raw + 4*t.Elements()
		if t.desc().Encoding != layout.Raw {
			taken += t.desc().Stored
		}
		for step > lz4block.Size && float64(step)*float64(taken) > stepFar*float64(t.size) {
			step /= 2
		}
	}
	for at, first := 0, true; first || at < len(b); first = false { // nothing is read once too, for its checks
		n := min(step, len(b)-at)
		off := part.off + uint64(at)
		leave, err := t.bring(ctx, off, uint64(n))
		if err != nil {
			return err
		}
		err = read(b[at:at+n], off)
		leave()
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// convert fills b with a part of a tensor whose stored elements are read, not mapped. It reads them into memory, which is of the same
// buffer, a step at a time. They come by the ways of bytes that are handed out as they are. It fails as reading does.
func (p *streamPlan) convert(ctx context.Context, part *streamPart, b, memory []byte) error {
	const page = mmapio.DirectAlignment
	t := part.of
	desc, codec := t.desc(), t.stored.Codec
	in := &window{size: desc.Raw}
	v := &values.Typed{Content: in, Count: t.stored.Count, Codec: codec}
	elems := uint64(desc.DType.BlockElems())
	begin, _ := codec.Span(part.off/t.block, 1)
	if _, cached, uncached := t.from.choose(desc.Offset + begin); cached != nil && uncached == nil {
		memory = memory[:min(len(memory), stepCached)]
	}
	step := max(1, (uint64(len(memory))-2*page)/uint64(desc.DType.BlockBytes())) * elems // whole blocks that memory holds
	for first := part.off / t.block; len(b) > 0; {
		n := min(step-first%elems, uint64(len(b))/t.block)
		off, size := codec.Span(first, n)
		l := load{off: desc.Offset + off, n: size, lead: (desc.Offset + off) % page}
		l.parts = []streamPart{{of: t, at: l.lead, n: size}}
		way, err := t.from.place(ctx, &l, memory)
		if err != nil {
			return err
		}
		t.from.count(way, n*t.block)
		in.b, in.off = memory[l.lead:][:size], off
		if err := values.ReadEncoded(ctx, content.Env{}, v, t.as, b[:n*t.block], first); err != nil {
			return err
		}
		b, first = b[n*t.block:], first+n
	}
	return nil
}

// window is the content of a tensor, in memory from off on.
type window struct {
	size uint64
	b    []byte
	off  uint64
}

func (w *window) Size() uint64 { return w.size }

// View returns the n bytes at off, which must be in memory: otherwise it fails.
func (w *window) View(_ context.Context, _ content.Env, off, n uint64) ([]byte, error) {
	return layout.Bytes(w.b).Slice(off-w.off, n)
}

// ReadAt fills p with the bytes from off on, which must be in memory: otherwise it fails.
func (w *window) ReadAt(ctx context.Context, env content.Env, p []byte, off uint64) error {
	in, err := w.View(ctx, env, off, uint64(len(p)))
	copy(p, in)
	return err
}

func (w *window) Probe(context.Context) (sure bool, err error) { return true, nil }

func (w *window) Cost() content.Cost { return content.Cost{} }

// made notes that a part of t was made, or that all are planned. After the last one it unpins what was had as a whole.
func (p *streamPlan) made(t *streamTensor) {
	if t.left.Add(-1) == 0 {
		p.model.cache.Unpin(&t.pins)
	}
}

// explain notes why a file is read as it is, unless that is known.
func (f *streamFile) explain(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why == "" {
		f.why = why
	}
}

// wholePart bounds the stored bytes of a part of a logical tensor that are all brought into memory. A range of values may lie
// anywhere in them.
const wholePart = 8 << 20

// bring brings what n bytes at off of the tensor are made of into memory, where it is mapped: about the same share of each stored
// tensor, or all of a small part of a logical one. leave releases the pages.
func (t *streamTensor) bring(ctx context.Context, off, n uint64) (leave func(), err error) {
	if t.size == 0 {
		return func() {}, nil
	}
	type pages struct {
		f      *file
		off, n uint64
	}
	var brought []pages
	leave = func() {
		for _, p := range brought {
			p.f.leave(p.off, p.n)
		}
	}
	for _, i := range t.storedTensors() {
		stored := Tensor{model: t.model, index: i}
		if !stored.inPlace() || !stored.file().data.Mapped() {
			continue
		}
		desc := stored.desc()
		begin, end := uint64(0), desc.Stored
		if !t.logical() || desc.Stored > wholePart {
			share := float64(desc.Stored) / float64(t.size)
			end = min(desc.Stored, uint64(float64(off+n)*share)+1)
			begin = min(uint64(float64(off)*share), end)
		}
		p := pages{stored.file(), desc.Offset + begin, end - begin}
		if err := p.f.bring(ctx, p.off, p.n); err != nil {
			leave()
			return nil, err
		}
		brought = append(brought, p)
	}
	return leave, nil
}
