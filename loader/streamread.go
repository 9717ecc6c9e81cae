package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	"github.com/tensormap/tensormap/loader/internal/values"
	"github.com/tensormap/tensormap/mmapio"
)

// fillBuffer fills b with the load l. If l has a file, it reads the load's range of the file. Otherwise it makes the parts one after
// the other. It fails if reading does, or if ctx has ended. An error of reading names the file and the tensors. fillBuffer notes what
// it has read and made by readDone and partDone, also if that has failed. After a failure it does not note the parts that it has not
// begun: streamPlan.close frees what they hold.
func (p *streamPlan) fillBuffer(ctx context.Context, l *bufferLoad, b []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if l.file == nil {
		for i := range l.parts {
			part := &l.parts[i]
			err := p.makePart(ctx, part, b) // calls partDone itself
			part.tensor.streamFile.readDone()
			if err != nil {
				return part.tensor.wrap(err)
			}
		}
		return nil
	}
	defer func() {
		for i := range l.parts {
			p.partDone(l.parts[i].tensor)
		}
		l.file.readDone()
	}()
	way, err := l.file.readInto(ctx, l, b)
	if err != nil {
		return l.wrap(err)
	}
	for i := range l.parts {
		l.file.countBytes(way, l.parts[i].size)
	}
	return nil
}

// wrap adds to err the name of the file, and the names of the first and the last tensor of the load. For a decryption error it adds
// the name of that error's tensor instead. It returns errors of a context unchanged. The load has a file and parts.
func (l *bufferLoad) wrap(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	first, last := l.parts[0].tensor, l.parts[len(l.parts)-1].tensor
	if first == last {
		return first.wrap(err)
	}
	if wrong, ok := errors.AsType[*decrypted.Error](err); ok {
		for i := range l.parts {
			if t := l.parts[i].tensor; t.Name() == wrong.Tensor {
				return t.wrap(err)
			}
		}
	}
	return l.file.Wrap(fmt.Errorf("tensors %q to %q: %w", first.Name(), last.Name(), err))
}

// countBytes adds n to the bytes that came by the given way.
func (f *streamFile) countBytes(way Backing, n uint64) {
	switch way {
	case BackingMap:
		f.mappedBytes.Add(n)
	case BackingDirect:
		f.directBytes.Add(n)
	default:
		f.readBytes.Add(n)
	}
}

// readInto reads the load's range of the file into b at l.bufferOff, decrypted. It returns the way by which the bytes came:
// BackingRead for an encrypted file. It fails if reading does.
func (f *streamFile) readInto(ctx context.Context, l *bufferLoad, b []byte) (Backing, error) {
	way, cached, uncached := f.chooseWay(l.fileOff)
	if f.decrypted != nil {
		return way, f.decryptInto(ctx, l, b)
	}
	into := b[l.bufferOff:][:l.size]
	switch {
	case l.size == 0:
		return way, nil
	case way == BackingMap:
		return way, f.copyMapped(ctx, into, l.fileOff)
	case cached != nil:
		return f.readLocal(cached, uncached, b, l.bufferOff, l.size, l.fileOff)
	}
	return way, f.data.ReadAt(ctx, into, l.fileOff)
}

// readLocal fills b[lead:lead+n] with the bytes of the file from off on, and returns the way by which they came. If uncached is not
// nil, it reads whole pages from that, as readDirect does. b[:lead] then gets the bytes of the first page that come before off. If
// uncached is nil or that fails, it reads from cached. After a failed direct read, f is never read direct again. readLocal fails if
// reading from cached does.
func (f *streamFile) readLocal(cached, uncached *os.File, b []byte, lead, n, off uint64) (Backing, error) {
	if uncached != nil {
		err := readDirect(uncached, b, lead, n, off)
		if err == nil {
			return BackingDirect, nil
		}
		f.giveUpDirect(err)
	}
	return BackingRead, mmapio.ReadFull(cached, b[lead:][:n], off)
}

// decryptInto reads each part of l into its place in b, decrypted. It fetches the blocks of a remote file by one request. It fails if
// reading does, or for bytes that are not authentic.
func (f *streamFile) decryptInto(ctx context.Context, l *bufferLoad, b []byte) (err error) {
	parts := slices.DeleteFunc(slices.Clone(l.parts), func(part streamPart) bool { return part.size == 0 })
	r := f.decryption()
	if r.LargeReads && len(parts) > 0 {
		last := parts[len(parts)-1]
		if r, err = r.Fetch(ctx, l.fileOff, last.bufferOff+last.size-l.bufferOff); err != nil {
			return err
		}
	}
	for _, part := range parts {
		if err := r.ReadAt(ctx, b[part.bufferOff:][:part.size], l.fileOff+part.bufferOff-l.bufferOff); err != nil {
			return err
		}
	}
	return nil
}

// copyMapped fills b with the bytes of a mapped file from off on. It brings stepFar bytes at a time into memory, copies them, and
// releases their pages. A remote file's cache may become full meanwhile: copyMapped then reads the rest by ReadAt. It fails if reading
// or verifying does.
func (f *streamFile) copyMapped(ctx context.Context, b []byte, off uint64) error {
	for len(b) > 0 {
		n := min(stepFar, uint64(len(b)))
		if err := f.bringIntoMemory(ctx, off, n); err != nil {
			return err
		}
		mapped, err := f.data.View(ctx, off, n)
		if mapped == nil && err == nil { // its cache has become full
			return f.data.ReadAt(ctx, b, off)
		}
		copy(b, mapped)
		f.releasePages(off, n)
		if err != nil {
			return err
		}
		b, off = b[n:], off+n
	}
	return nil
}

// bringIntoMemory brings the pages that hold n bytes at off of a mapped file into physical memory, and verifies them. It fails if
// reading or verifying does.
func (f *file) bringIntoMemory(ctx context.Context, off, n uint64) error {
	resident, err := f.data.Resident(off, n)
	return f.data.Warm(ctx, off, n, err != nil || resident < n)
}

// releasePages takes the pages that lie within n bytes at off of a mapped file out of the process's memory. They stay in the page cache.
// It does nothing for a file that is not mapped.
func (f *file) releasePages(off, n uint64) {
	if f.data.Mapped() {
		f.data.Mapping().Advise(mmapio.DontNeed, off, n) // an error means that they stay, as locked ones do
	}
}

// readDirect fills b[lead:][:n] with the bytes of the file from off on, by one read of whole pages. b must begin a page, and off-lead one
// of the file. b must have memory for the pages, but may end within the last one. It fails if the read ends before the n bytes do.
func readDirect(f *os.File, b []byte, lead, n, off uint64) error {
	const page = mmapio.DirectAlignment
	end := lead + n
	read, err := f.ReadAt(b[:min((end+page-1)&^(page-1), uint64(len(b)))], int64(off-lead))
	if uint64(read) >= end { // whatever err says, such as io.EOF
		return nil
	}
	return err
}

// residencyStep is how many bytes of a file are taken to be in the page cache if most of the last residencyProbe of them are.
const (
	residencyStep  = 8 << 20
	residencyProbe = 128 << 10
)

// residency returns for each residencyStep of the file whether it is in the page cache, judged by its last residencyProbe bytes. The
// caller has not read anything yet: the system would have read ahead. It fails if the platform cannot tell.
func (f *streamFile) residency() (cached []bool, err error) {
	size := f.data.Size()
	for off := uint64(0); off <= size; off += residencyStep { // off == size is for a tensor of no bytes at the end
		n := min(residencyProbe, size-off)
		at := min(off+residencyStep, size) - n
		resident, err := f.data.Resident(at, n)
		if err != nil {
			return nil, err
		}
		cached = append(cached, resident > n/2) // false for no bytes
	}
	return cached, nil
}

// chooseWay returns the way to read the file's bytes at off, and the handles for that. It chooses BackingDirect if the file can be
// read direct. But for BackingAuto it does not do so for bytes that were in the page cache. cached is the handle that reads through
// the page cache, or nil if the model's own file does that. uncached is the handle for direct reads, or nil if way is not
// BackingDirect. The first call decides which ways there are, and opens the handles.
func (f *streamFile) chooseWay(off uint64) (way Backing, cached, uncached *os.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isDecided {
		f.isDecided = true
		f.indirectWay, f.reason = f.decideWays()
	}
	if f.directHandle == nil || f.directFailed {
		return f.indirectWay, f.cachedHandle, nil
	}
	if f.backing == BackingAuto && f.wasCached[off/residencyStep] {
		return f.indirectWay, f.cachedHandle, nil
	}
	return BackingDirect, f.cachedHandle, f.directHandle
}

// decideWays returns the way for bytes that are not read direct, and the reason as a text. It opens f.cachedHandle. If bytes may be
// read direct, it opens f.directHandle too. If the file cannot be opened again, both stay nil: the model's own file or mapping is
// read.
func (f *streamFile) decideWays() (indirectWay Backing, why string) {
	way, why := f.onlyWay()
	if why != "" {
		return way, why
	}
	var err error
	if f.cachedHandle, err = f.reopen(); err != nil {
		way = BackingRead
		if f.data.InPlace() {
			way = BackingMap
		}
		return way, fmt.Sprintf("it cannot be opened again: %v", err)
	}
	switch f.backing {
	case BackingRead:
		return BackingRead, "asked for"
	case BackingMap: // onlyWay has returned it for a mapped file
		return BackingRead, "it is not mapped"
	}
	return BackingRead, f.openDirect()
}

// onlyWay returns the way to read the file if there is only one, or if the caller of Stream has asked for BackingMap. why is the
// reason as a text. why is "" if the file can be opened again, so that there are several ways. The first case that applies decides.
func (f *streamFile) onlyWay() (way Backing, why string) {
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
	return BackingAuto, ""
}

// openDirect opens f.directHandle for direct reads. Unless the caller of Stream has asked for direct reads, it finds out which bytes
// are in the page cache. If it cannot do one or the other, f.directHandle stays nil. why is the reason for how the file is read, as a
// text.
func (f *streamFile) openDirect() (why string) {
	uncached, err := f.reopen()
	if err != nil {
		return fmt.Sprintf("no direct reads: %v", err)
	}
	if err := mmapio.Direct(uncached); err != nil {
		uncached.Close()
		return fmt.Sprintf("no direct reads: %v", err)
	}
	why = "asked for"
	if f.backing != BackingDirect {
		if f.wasCached, err = f.residency(); err != nil {
			uncached.Close()
			return "nobody tells what is in the page cache"
		}
		why = "bytes in the page cache are read, others direct"
	}
	f.directHandle = uncached
	return why
}

// giveUpDirect ends direct reads of the file, since one has failed with err.
func (f *streamFile) giveUpDirect(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.directFailed, f.reason = true, fmt.Sprintf("a direct read has failed: %v", err)
}

// readDone takes one from f.readsLeft: a load or a part was read, or all loads of a tensor are planned. The last call closes the file's
// handles.
func (f *streamFile) readDone() {
	if f.readsLeft.Add(-1) == 0 {
		f.close()
	}
}

// close closes the handles that decideWays has opened, unless they are closed already.
func (f *streamFile) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range []*os.File{f.cachedHandle, f.directHandle} {
		if file != nil {
			file.Close()
		}
	}
	f.cachedHandle, f.directHandle = nil, nil
}

// close closes the handles of all files, and unpins what the tensors have pinned in the cache. No reader may be left.
func (p *streamPlan) close() {
	for _, f := range p.files {
		f.close()
	}
	for _, t := range p.tensors {
		p.model.cache.Unpin(&t.pins)
	}
}

// changed returns an error that names a file of the plan which has changed since it was opened, or nil.
func (p *streamPlan) changed() error {
	for _, f := range p.files {
		if err := f.changed(); err != nil {
			return f.Wrap(err)
		}
	}
	return nil
}

// result returns how many bytes of each file were read by which way, and why, in the order of Model.Files. No reader may be left.
func (p *streamPlan) result() (files []StreamedFile) {
	for _, f := range p.files {
		files = append(files, StreamedFile{f.position, f.mappedBytes.Load(), f.readBytes.Load(), f.directBytes.Load(), f.reason})
	}
	slices.SortFunc(files, func(a, b StreamedFile) int { return a.File - b.File })
	return files
}

// How many bytes are made at once, since that takes memory of its own: stepNear of a file of this system, stepFar of one that may wait for
// a network.
const (
	stepNear = 1 << 20
	stepFar  = 4 << 20
)

// stepCached bounds what is read from the page cache before it is converted: the processor's nearest caches hold it.
const stepCached = 72 << 10

// makePart fills the part's share of buffer with elements that it converts, decompresses, unpacks or expands. buffer is that of the
// whole load. Its bytes from p.pieceCapacity on are memory for what is read to be converted. makePart calls partDone, also if it
// fails. It fails if reading does.
func (p *streamPlan) makePart(ctx context.Context, part *streamPart, buffer []byte) error {
	t, b := part.tensor, buffer[part.bufferOff:][:part.size]
	defer p.partDone(t)
	if t.storedValues != nil && part.size > 0 {
		if way, _, _ := t.streamFile.chooseWay(t.desc().Offset); way != BackingMap {
			return p.convert(ctx, part, b, buffer[p.pieceCapacity:])
		}
	}
	way, why := BackingRead, "what it yields is made of reads"
	if t.inPlace() {
		way, why = BackingMap, "what it yields is made of the mapping"
	}
	t.streamFile.countBytes(way, part.size)
	t.streamFile.setReason(why)

	s := t.state()
	env := s.envForParts(content.Env{}, &t.pins)
	source := content.Content(s.elements)
	read := func(b []byte, off uint64) error { return s.elements.ReadAt(ctx, env, b, off) }
	if t.as != layout.Invalid {
		source = s.values.Source()
		read = func(b []byte, off uint64) error {
			return values.ReadEncoded(ctx, env, s.values, t.as, b, off/t.blockBytes)
		}
	}
	return t.readSteps(ctx, b, part.tensorOff, t.madeAtOnce(source.Cost().MayWait), read)
}

// madeAtOnce returns how many bytes of t are made at a time. mayWait says that what they are made of may come over a network.
// Converting elements takes more memory. So madeAtOnce returns fewer bytes then: that memory is at most stepFar bytes, unless one LZ4
// block needs more.
func (t *streamTensor) madeAtOnce(mayWait bool) int {
	step := stepNear
	if mayWait || !t.inPlace() && t.as == layout.Invalid {
		step = stepFar
	}
	if t.as == layout.Invalid {
		return step
	}
	// Elements, their values, and what they are decompressed from take memory of their own.
	taken := t.desc().Raw + 4*t.Elements()
	if t.desc().Encoding != layout.Raw {
		taken += t.desc().Stored
	}
	for step > lz4block.Size && float64(step)*float64(taken) > stepFar*float64(t.size) { // making step bytes takes step*taken/t.size
		step /= 2
	}
	return step
}

// readSteps fills b with the bytes of t from off on. It calls read for step bytes at a time. Before each call it brings the pages that
// are needed into memory, and after it releases them. For an empty b it calls read once, which checks the tensor. It fails if reading
// does.
func (t *streamTensor) readSteps(ctx context.Context, b []byte, off uint64, step int, read func(b []byte, off uint64) error) error {
	for {
		n := min(step, len(b))
		release, err := t.bringIntoMemory(ctx, off, uint64(n))
		if err != nil {
			return err
		}
		err = read(b[:n], off)
		release()
		if err != nil {
			return err
		}
		if b, off = b[n:], off+uint64(n); len(b) == 0 {
			return nil
		}
	}
}

// convert fills b with a part of a tensor whose elements are converted, from a file that is not mapped. In each step it reads stored
// elements into scratch and converts them into b. scratch is the other half of the buffer: it begins a page and has several. convert
// fails if reading does.
func (p *streamPlan) convert(ctx context.Context, part *streamPart, b, scratch []byte) error {
	const page = mmapio.DirectAlignment
	t := part.tensor
	desc, codec := t.desc(), t.storedValues.Codec
	in := &window{size: desc.Raw}
	v := &values.Typed{Content: in, Count: t.storedValues.Count, Codec: codec}
	begin, _ := codec.Span(part.tensorOff/t.blockBytes, 1)
	if _, cached, uncached := t.streamFile.chooseWay(desc.Offset + begin); cached != nil && uncached == nil {
		scratch = scratch[:min(len(scratch), stepCached)]
	}
	// A step is as many whole blocks as scratch has room for. Direct reads add up to a page before and after them.
	blocksAtOnce := max(1, (uint64(len(scratch))-2*page)/uint64(desc.DType.BlockBytes()))
	step := blocksAtOnce * uint64(desc.DType.BlockElems())
	for first := part.tensorOff / t.blockBytes; len(b) > 0; {
		n := min(step-first%uint64(desc.DType.BlockElems()), uint64(len(b))/t.blockBytes) // later steps begin with a block
		off, size := codec.Span(first, n)
		l := bufferLoad{fileOff: desc.Offset + off, size: size, bufferOff: (desc.Offset + off) % page}
		l.parts = []streamPart{{tensor: t, bufferOff: l.bufferOff, size: size}}
		way, err := t.streamFile.readInto(ctx, &l, scratch)
		if err != nil {
			return err
		}
		t.streamFile.countBytes(way, n*t.blockBytes)
		in.bytes, in.firstByte = scratch[l.bufferOff:][:size], off
		if err := values.ReadEncoded(ctx, content.Env{}, v, t.as, b[:n*t.blockBytes], first); err != nil {
			return err
		}
		b, first = b[n*t.blockBytes:], first+n
	}
	return nil
}

// window is the content of a tensor. Only some bytes are in memory: those that convert reads at a time.
type window struct {
	size      uint64 // of the whole tensor
	bytes     []byte // those in memory
	firstByte uint64 // where they begin in the tensor
}

// Size returns the size of the whole tensor in bytes.
func (w *window) Size() uint64 { return w.size }

// View returns the tensor's n bytes at off. It fails if they are not all in memory.
func (w *window) View(_ context.Context, _ content.Env, off, n uint64) ([]byte, error) {
	return layout.Bytes(w.bytes).Slice(off-w.firstByte, n) // which refuses the huge offset that bytes before firstByte give
}

// ReadAt fills p with the tensor's bytes from off on. It fails if they are not all in memory.
func (w *window) ReadAt(ctx context.Context, env content.Env, p []byte, off uint64) error {
	in, err := w.View(ctx, env, off, uint64(len(p)))
	copy(p, in)
	return err
}

// Probe reports that the bytes surely exist: convert has read them.
func (w *window) Probe(context.Context) (sure bool, err error) { return true, nil }

// Cost returns the zero Cost, that of bytes in memory.
func (w *window) Cost() content.Cost { return content.Cost{} }

// partDone takes one from t.partsLeft: a part of t was made, or all its parts are planned. The last call unpins what t has in the
// cache.
func (p *streamPlan) partDone(t *streamTensor) {
	if t.partsLeft.Add(-1) == 0 {
		p.model.cache.Unpin(&t.pins)
	}
}

// setReason sets the reason for how the file is read, unless there is one already.
func (f *streamFile) setReason(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reason == "" {
		f.reason = why
	}
}

// wholePart is the most stored bytes that a part of a logical tensor may have to be brought into memory as a whole: a range of values
// may lie anywhere in it.
const wholePart = 8 << 20

// bringIntoMemory brings pages of mapped files into memory: those from which n bytes of the tensor, from off on, are made. It
// estimates them: in each stored tensor it takes the share of bytes that the n bytes are of t. But it brings a logical tensor's part
// of up to wholePart bytes as a whole. The caller calls release after use, which releases the pages. If reading fails, bringIntoMemory
// does, and release is nil.
func (t *streamTensor) bringIntoMemory(ctx context.Context, off, n uint64) (release func(), err error) {
	if t.size == 0 {
		return func() {}, nil
	}
	type pages struct {
		f      *file
		off, n uint64
	}
	var brought []pages
	release = func() {
		for _, p := range brought {
			p.f.releasePages(p.off, p.n)
		}
	}
	for _, i := range t.storedTensors() {
		stored := Tensor{model: t.model, index: i}
		if !stored.inPlace() || !stored.file().data.Mapped() {
			continue
		}
		desc := stored.desc()
		begin, end := uint64(0), desc.Stored
		if !t.isLogical() || desc.Stored > wholePart {
			share := float64(desc.Stored) / float64(t.size)
			end = min(desc.Stored, uint64(float64(off+n)*share)+1)
			begin = min(uint64(float64(off)*share), end)
		}
		p := pages{stored.file(), desc.Offset + begin, end - begin}
		if err := p.f.bringIntoMemory(ctx, p.off, p.n); err != nil {
			release()
			return nil, err
		}
		brought = append(brought, p)
	}
	return release, nil
}
