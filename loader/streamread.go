package loader

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/values"
	"github.com/tensormap/tensormap/mmapio"
)

// streamFile is a file that Stream reads.
type streamFile struct {
	*file
	backing    Backing       // what the caller has asked for
	lastTensor *streamTensor // the tensor of the file that is handed out last

	mu          sync.Mutex
	result      StreamedFile
	isDecided   bool     // decideWays was called
	indirectWay Backing  // the way of bytes that are not read direct
	readsDirect bool     // bytes may be read direct; false once a direct read has failed
	cached      *os.File // a handle that reads the file through the page cache; nil if f.data reads it
	direct      *os.File // a handle that reads the file past the page cache; or nil
	wasCached   []bool   // whether each residencyStep was in the page cache before; only for BackingAuto
}

// fillSlot fills b with the pieces of load. If a file stores the pieces as they are handed out, fillSlot reads them as one range of that
// file. Otherwise it makes the pieces one by one. It fails if reading does, or if ctx has ended. An error of reading names the file and
// the tensors.
func (p *streamPlan) fillSlot(ctx context.Context, load []plannedPiece, b []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if load[0].tensor.isFileBytes {
		return readLoad(ctx, load, b)
	}
	for i := range load {
		if err := p.makePiece(ctx, &load[i], b); err != nil {
			return load[i].tensor.wrap(err)
		}
	}
	return nil
}

// readLoad fills b with the pieces of load, which are one range of a file. If the file is not encrypted, readLoad reads the range at once.
// Otherwise it decrypts the pieces one by one. If an encrypted file is remote, one request fetches the range before. readLoad fails if
// reading or decrypting does. The error names the tensor that failed, or the first and the last one if they were read at once.
func readLoad(ctx context.Context, load []plannedPiece, b []byte) error {
	first, last := &load[0], &load[len(load)-1]
	f, off := first.tensor.streamFile, first.fileOff()
	size := last.fileOff() + last.size - off
	way, stored := BackingRead, f.stored
	var err error
	switch {
	case f.decrypted == nil:
		way, err = f.readRange(ctx, b, first.slotOff, size, off)
	case f.data.Remote():
		buf := requestBuffers.Get().(*[]byte)
		defer requestBuffers.Put(buf)
		stored, err = f.fetch(ctx, buf, first.tensor.desc(), first.off, last.tensor.desc(), last.off+last.size)
	}
	switch {
	case err == nil:
	case first.tensor == last.tensor:
		return first.tensor.wrap(err)
	default:
		return f.Wrap(fmt.Errorf("tensors %q to %q: %w", first.tensor.Name(), last.tensor.Name(), err))
	}
	for _, piece := range load {
		if f.decrypted != nil {
			err := stored(piece.tensor.desc()).ReadAt(ctx, content.Env{}, b[piece.slotOff:][:piece.size], piece.off)
			if err != nil {
				return piece.tensor.wrap(err)
			}
		}
		f.count(way, piece.size, "its tensors are encrypted")
	}
	return nil
}

// count adds n to the number of bytes that came by the given way. If f.result does not have a reason yet for how the file is read, count
// sets why as that reason.
func (f *streamFile) count(way Backing, n uint64, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch way {
	case BackingMap:
		f.result.Mapped += n
	case BackingDirect:
		f.result.Direct += n
	default:
		f.result.Read += n
	}
	f.result.Why = cmp.Or(f.result.Why, why)
}

// readRange fills b[lead:][:n] with n bytes of the file from off on, and returns the way by which they came. The file must not be encrypted.
// A direct read takes whole pages: b[:lead] then gets the bytes of the first page that come before off. If a direct read fails, readRange
// reads by f.indirectWay, and the file is never read direct again. readRange fails if any other way of reading does.
func (f *streamFile) readRange(ctx context.Context, b []byte, lead, n, off uint64) (way Backing, err error) {
	if way = f.wayAt(off); way == BackingDirect {
		err := readDirect(f.direct, b, lead, n, off)
		if err == nil {
			return way, nil
		}
		f.mu.Lock()
		way, f.readsDirect, f.result.Why = f.indirectWay, false, fmt.Sprintf("a direct read has failed: %v", err)
		f.mu.Unlock()
	}
	into := b[lead:][:n]
	switch {
	case way == BackingMap:
		return way, f.copyMapped(ctx, into, off)
	case f.cached != nil:
		return way, mmapio.ReadFull(f.cached, into, off)
	}
	return way, f.data.ReadAt(ctx, into, off)
}

// copyMapped fills b with the bytes of a mapped file from off on. It reads their pages into memory, and releases them afterwards. A remote
// file's cache may become full meanwhile: copyMapped then reads by ReadAt. It fails if reading or verifying does.
func (f *streamFile) copyMapped(ctx context.Context, b []byte, off uint64) error {
	n := uint64(len(b))
	if err := f.readIntoMemory(ctx, off, n); err != nil {
		return err
	}
	defer f.releasePages(off, n)
	mapped, err := f.data.View(ctx, off, n)
	if mapped == nil && err == nil { // the cache of f has become full
		return f.data.ReadAt(ctx, b, off)
	}
	copy(b, mapped)
	return err
}

// readIntoMemory reads the pages that hold n bytes at off of a mapped file into physical memory, and verifies them. If the system does
// not tell which pages are in memory, readIntoMemory takes them as cold. It fails if reading or verifying does.
func (f *file) readIntoMemory(ctx context.Context, off, n uint64) error {
	resident, err := f.data.Resident(off, n)
	isCold := err != nil || resident < n
	return f.data.Warm(ctx, off, n, isCold)
}

// releasePages takes the pages that lie within n bytes at off of a mapped file out of the process's memory. They stay in the page cache.
// It does nothing for a file that is not mapped. It always returns nil: pages that the system does not release, such as locked ones, stay.
func (f *file) releasePages(off, n uint64) error {
	if f.data.Mapped() {
		_ = f.data.Mapping().Advise(mmapio.DontNeed, off, n)
	}
	return nil
}

// readDirect fills b[lead:][:n] with n bytes of the file from off on, by one read of whole pages. b must begin at a page of memory. A page of
// the file must begin at off-lead. If b ends within the last page, the read ends there too. readDirect fails if the read ends before the
// n bytes do.
func readDirect(f *os.File, b []byte, lead, n, off uint64) error {
	const page = mmapio.DirectAlignment
	end := lead + n
	read, err := f.ReadAt(b[:min((end+page-1)&^(page-1), uint64(len(b)))], int64(off-lead))
	if uint64(read) >= end { // whatever err says, such as io.EOF
		return nil
	}
	return err
}

// The method residency judges a file in steps of residencyStep bytes. It takes a step to be in the page cache if most of the step's last
// residencyProbe bytes are.
const (
	residencyStep  = 8 << 20
	residencyProbe = 128 << 10
)

// residency returns for each residencyStep of the file whether the step is in the page cache, judged by its last residencyProbe bytes. It
// must be called before the file is read, since the system reads ahead. residency fails if the platform cannot tell.
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

// wayAt returns the way to read the file's bytes at off: BackingDirect if the file can be read direct, or else f.indirectWay. With
// BackingAuto, bytes that were in the page cache are not read direct. The first call decides which ways there are, and opens the handles.
func (f *streamFile) wayAt(off uint64) Backing {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isDecided {
		f.isDecided = true
		f.indirectWay, f.result.Why = f.decideWays()
	}
	if !f.readsDirect || f.backing == BackingAuto && f.wasCached[off/residencyStep] {
		return f.indirectWay
	}
	return BackingDirect
}

// decideWays returns the way for bytes that are not read direct, and the reason as a text. The first case that applies decides. If the file
// can be opened again, and the caller has not asked for its mapping, decideWays opens f.cached. If bytes may be read direct, it opens
// f.direct too, and sets f.readsDirect. It never fails: an error of opening becomes the reason, and f.data reads the file or f.cached does.
func (f *streamFile) decideWays() (indirect Backing, why string) {
	inPlace := f.data.InPlace()
	indirect = BackingRead
	if inPlace {
		indirect = BackingMap
	}
	switch isVerified := f.data.Digests() != nil; {
	case inPlace && f.data.Waits():
		return indirect, "it fills while it is read"
	case isVerified && inPlace:
		return indirect, "its bytes are verified in memory"
	case isVerified:
		return indirect, "its bytes are verified as they are read"
	case inPlace && !f.data.Mapped():
		return indirect, "it is in memory"
	case f.entry == nil && inPlace:
		return indirect, "its name does not lead to it"
	case f.entry == nil:
		return indirect, "its source reads it"
	case inPlace && f.backing == BackingMap:
		return indirect, "asked for"
	}
	var err error
	if f.cached, err = f.entry.reopen(); err != nil {
		return indirect, fmt.Sprintf("it cannot be opened again: %v", err)
	}
	switch f.backing {
	case BackingRead:
		return BackingRead, "asked for"
	case BackingMap:
		return BackingRead, "it is not mapped"
	}
	if f.direct, err = f.entry.reopen(); err == nil {
		err = mmapio.Direct(f.direct)
	}
	if err != nil {
		return BackingRead, fmt.Sprintf("no direct reads: %v", err)
	}
	why = "asked for"
	if f.backing != BackingDirect {
		if f.wasCached, err = f.residency(); err != nil {
			return BackingRead, "nobody tells what is in the page cache"
		}
		why = "bytes in the page cache are read, others direct"
	}
	f.readsDirect = true
	return BackingRead, why
}

// close closes the handles that decideWays has opened, unless they are closed already. No reader may use them.
func (f *streamFile) close() {
	f.cached.Close() // which does nothing for nil
	f.direct.Close()
	f.cached, f.direct = nil, nil
}

// Numbers of bytes that makePiece makes at once, since making them takes memory in addition to the buffers. Fewer are converted at once if reading
// them takes more than stepStored bytes.
const (
	stepStored    = 4 << 20 // of elements as they are stored
	stepConverted = 1 << 20 // of elements that are converted
)

// stepCached bounds what is read from the page cache before it is converted: the processor's nearest caches hold it.
const stepCached = 72 << 10

// makePiece fills the piece's bytes of slot with elements that it converts, decompresses, unpacks or expands. slot has the memory of
// the whole load. Its bytes from p.pieceCapacity on are memory for what is read to be converted. makePiece reads the pages of mapped files
// that it needs into memory, and releases them afterwards. It also reads a tensor without elements, so that faults of the tensor are found.
// It fails if reading does.
func (p *streamPlan) makePiece(ctx context.Context, piece *plannedPiece, slot []byte) error {
	t, b := piece.tensor, slot[piece.slotOff:][:piece.size]
	if t.isConverted && (t.file().decrypted != nil || t.streamFile.wayAt(t.desc().Offset) != BackingMap) {
		return t.convert(ctx, b, piece.off, slot[p.pieceCapacity:])
	}
	way, why := BackingRead, "what it yields is made of reads"
	if t.inPlace() {
		way, why = BackingMap, "what it yields is made of the mapping"
	}
	t.streamFile.count(way, piece.size, why)
	s, step := t.state(), stepStored
	if t.as != layout.Invalid {
		step = stepConverted
		if desc := t.desc(); !isRaw(desc) {
			taken := desc.Stored + desc.Raw + 4*t.Elements() // bytes of memory for the whole tensor: as stored, as elements, and as values
			for step > lz4block.Size && float64(step)*float64(taken) > stepStored*float64(t.size) {
				step /= 2
			}
		}
	}
	env := s.envForParts(content.Env{}, &t.pins)
	for off := piece.off; ; {
		n := min(step, len(b))
		err := t.eachMapped(off, uint64(n), func(f *file, off, n uint64) error { return f.readIntoMemory(ctx, off, n) })
		switch {
		case err != nil:
			return err
		case t.as == layout.Invalid:
			err = content.Read(ctx, env, s.elements, b[:n], off)
		default:
			err = values.ReadEncoded(ctx, env, s.values.Current(), t.as, b[:n], off/t.blockBytes)
		}
		_ = t.eachMapped(off, uint64(n), (*file).releasePages)
		if b, off = b[n:], off+uint64(n); err != nil || len(b) == 0 {
			return err
		}
	}
}

// convert fills b with converted elements of t. b[0] is byte off of all converted elements. convert is for files that are encrypted, or not
// read by their mapping. In each step it reads stored elements into scratch, and converts them into b. scratch must begin at a page and have
// several pages. convert fails if reading does.
func (t *streamTensor) convert(ctx context.Context, b []byte, off uint64, scratch []byte) error {
	const page = mmapio.DirectAlignment
	desc, codec := t.desc(), t.state().codec()
	elems, width := uint64(desc.DType.BlockElems()), t.blockBytes
	first, stored := off/width, t.file().stored(desc)
	begin, _ := codec.ByteRange(first, 1)
	if f := t.streamFile; f.cached != nil && f.wayAt(desc.Offset+begin) != BackingDirect {
		scratch = scratch[:min(len(scratch), stepCached)]
	}
	// A step is as many whole blocks as scratch has memory for. Direct reads add up to a page before and after them.
	step := elems * max(1, (uint64(len(scratch))-2*page)/uint64(desc.DType.BlockBytes()))
	for len(b) > 0 {
		skipped := first % elems // elements of the first block; none in later steps
		n := min(step-skipped, uint64(len(b))/width)
		off, size := codec.ByteRange(first-skipped, skipped+n)
		lead := (desc.Offset + off) % page
		way := BackingRead
		var err error
		if t.file().decrypted != nil {
			err = stored.ReadAt(ctx, content.Env{}, scratch[lead:][:size], off)
		} else {
			way, err = t.streamFile.readRange(ctx, scratch, lead, size, desc.Offset+off)
		}
		if err != nil {
			return err
		}
		t.streamFile.count(way, n*width, "its tensors are encrypted")
		read := &values.Typed{Content: content.Memory(scratch[lead:][:size]), Count: skipped + n, Codec: codec}
		if err := values.ReadEncoded(ctx, content.Env{}, read, t.as, b[:n*width], skipped); err != nil {
			return err
		}
		b, first = b[n*width:], first+n
	}
	return nil
}

// wholePart is the most stored bytes that a part of a logical tensor may have to be read into memory as a whole: a range of values
// may lie anywhere in it.
const wholePart = 8 << 20

// eachMapped calls do for the ranges of mapped files that n bytes of t, from off on, are made of. It estimates these ranges: if the n bytes
// are a tenth of t, do gets the corresponding tenth of each stored tensor. If t is logical, do gets each part of up to wholePart bytes,
// such as scales, as a whole. eachMapped leaves out files that are not mapped. It fails with the first error of do.
func (t *streamTensor) eachMapped(off, n uint64, do func(f *file, off, n uint64) error) error {
	if n == 0 {
		return nil
	}
	for stored := range t.storedTensors() {
		desc := stored.desc()
		if !stored.inPlace() || !stored.file().data.Mapped() {
			continue
		}
		begin, end := uint64(0), desc.Stored
		if !t.isLogical() || desc.Stored > wholePart {
			share := float64(desc.Stored) / float64(t.size)
			end = min(desc.Stored, uint64(float64(off+n)*share)+1)
			begin = min(uint64(float64(off)*share), end)
		}
		if err := do(stored.file(), desc.Offset+begin, end-begin); err != nil {
			return err
		}
	}
	return nil
}
