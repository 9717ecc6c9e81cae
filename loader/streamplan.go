package loader

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/loader/internal/values"
	"github.com/tensormap/tensormap/mmapio"
)

// StreamOptions tune Stream. All fields but Buffers may be zero. A nil *StreamOptions has no buffers, so that Stream fails unless there is
// nothing to stream.
type StreamOptions struct {
	// Buffers are two or more slices of the caller's that do not overlap, such as pinned memory of a device. They are lent until
	// Stream returns. Of each, as many bytes are used as the shortest has. They are cut into slots, which readers fill: of at most 1 MiB, 2 with
	// As, or 8 if a file is read over a network. At most two slots for each reader are in use at a time, over a network all.
	// Other slots of large buffers stand in for slots with retained pieces. With As, half of each slot takes what is read before it
	// is converted. Direct reads need buffers of at least 68 KiB. They are fastest into large pages: a disk may be slower the
	// more places of memory a read goes to.
	Buffers [][]byte
	// As is the type of the elements that are handed out: F32, F16 or BF16, as [Tensor.ReadAs] makes them. Integers and booleans
	// without a scale keep their type, which [Piece.DType] says: they are positions or token numbers, not weights. The zero
	// value hands out what [Tensor.Bytes] returns. For a logical tensor that is ErrUnsupported.
	As layout.DType
	// Ordered hands out the tensors in the order of names. Otherwise they come as they are stored, which takes the fewest
	// reads.
	Ordered bool
	// Readers is the number of goroutines that fill buffers. 0 means one for each buffer, and more than that
	// are not started.
	Readers int
	// Backing says how bytes of local files should reach the buffers. A file that cannot be read so is read otherwise,
	// without an error. [StreamResult.Files] says how, and why.
	Backing Backing
	// Progress, if set, is called with the number of bytes that were handed out and the number of all bytes: in the caller's
	// goroutine, with done never falling.
	Progress func(done, total uint64)
}

// Backing is a way by which Stream reads bytes of a file into a buffer.
type Backing uint8

const (
	// BackingAuto is BackingDirect for bytes that are not in the page cache, if the file system can, and BackingRead for
	// others.
	BackingAuto Backing = iota
	// BackingMap copies from the mapping, whose pages are first read into memory by large requests and then released again.
	BackingMap
	// BackingRead reads by system calls, through the page cache, or by requests to a server.
	BackingRead
	// BackingDirect reads past the page cache (O_DIRECT on Linux).
	BackingDirect
)

// String returns the name of b: auto, map, read or direct.
func (b Backing) String() string {
	if names := [...]string{"auto", "map", "read", "direct"}; int(b) < len(names) {
		return names[b]
	}
	return fmt.Sprintf("Backing(%d)", uint8(b))
}

// StreamedFile says by which way the bytes that were handed out of one file came. Bytes of a logical tensor count for the file of
// its codes. After an error, bytes that were read and not handed out count too.
type StreamedFile struct {
	File   int    // its position in Model.Files
	Mapped uint64 // bytes that were copied from the mapping, or made of it
	Read   uint64 // bytes that were read through the page cache, or by requests
	Direct uint64 // bytes that were read past the page cache
	Why    string // what decided the ways; "" if nothing of the file was read
}

// streamPlan is what Stream reads into buffers, in the order in which it is handed out.
type streamPlan struct {
	model         *Model
	slots         [][]byte // in the caller's buffers
	pieceCapacity uint64   // bytes of a slot for what is handed out: all, or half if hasScratch
	hasScratch    bool     // half of each slot takes what is read to be converted
	pageAligned   bool     // bytes of a file begin in a slot where they do in their page, and slots are whole pages
	total         uint64   // bytes that are handed out
	mayWait       bool     // reading may wait for a network
	files         map[*file]*streamFile
	tensors       []*streamTensor

	nextTensor int    // the tensor that the next load begins with
	nextOff    uint64 // where in that tensor
}

// streamTensor is a tensor that is handed out.
type streamTensor struct {
	Tensor
	streamFile  *streamFile
	as          layout.DType // of the elements that are handed out; layout.Invalid: as they are stored
	size        uint64       // bytes that are handed out
	isFileBytes bool         // the file stores the bytes that are handed out, perhaps encrypted
	isConverted bool         // from elements that are read into a slot's scratch half
	headBytes   uint64       // bytes before the first block
	blockBytes  uint64       // bytes that stay together
	stepBytes   uint64       // bytes that are best made together, a multiple of blockBytes

	pins cache.Pins // pins what the cache has of the whole tensor, until the last piece is handed out
}

// plannedPiece is what a load has of one tensor. A load is the pieces that fill one slot together. These pieces are either one range of a
// file, with padding between them, or made one by one.
type plannedPiece struct {
	tensor    *streamTensor
	off, size uint64 // in bytes that are handed out
	slotOff   uint64 // in the slot
}

// fileOff returns the offset in the file at which the piece begins. The piece must be bytes that the file stores.
func (p *plannedPiece) fileOff() uint64 { return p.tensor.desc().Offset + p.off }

// minDirect is the least memory of a buffer for direct reads.
const minDirect = 64 << 10

// maxLoad bounds what is read at once: a function that copies it finds it in the processor's cache. Several readers keep a disk busy
// with such reads.
const maxLoad = 1 << 20

// maxRequest bounds what is read at once if reading may wait for a network.
const maxRequest = 8 << 20

// newStreamPlan returns the plan for streaming the tensors with the options. It reads no elements, but may read metadata. It fails if
// the buffers are too few, too small or overlap, or if a tensor cannot be handed out as the type opts.As.
func newStreamPlan(ctx context.Context, m *Model, tensors []Tensor, opts *StreamOptions) (*streamPlan, error) {
	p := &streamPlan{model: m, files: make(map[*file]*streamFile), hasScratch: opts.As != layout.Invalid}
	largest := uint64(maxLoad) // bytes of a slot
	if p.hasScratch {
		if err := values.Encodable(opts.As); err != nil {
			return nil, inFile(m.path, err)
		}
		largest *= 2
	}
	if p.mayWait = slices.ContainsFunc(tensors, func(t Tensor) bool { return t.file().data.Waits() }); p.mayWait {
		largest = maxRequest // also with opts.As, since half of maxRequest is still a large request
		if slices.ContainsFunc(tensors, func(t Tensor) bool { return t.file().decrypted != nil }) {
			largest /= 2 // encrypted bytes take as much memory of the process in addition to the buffer
		}
	}
	if err := p.useBuffers(opts.Buffers, largest); err != nil {
		return nil, inFile(m.path, err)
	}
	for _, t := range tensors {
		s, err := p.planTensor(ctx, t, opts.As)
		if err != nil {
			return nil, t.wrap(err)
		}
		f := t.file()
		if p.files[f] == nil {
			p.files[f] = &streamFile{file: f, backing: opts.Backing, result: StreamedFile{File: t.File()}}
		}
		s.streamFile = p.files[f]
		s.streamFile.lastTensor = s
		p.tensors = append(p.tensors, s)
		p.total += s.size
	}
	return p, nil
}

// useBuffers cuts the caller's buffers into p.slots of equal length: largest, or the length of the shortest buffer if that is less. If
// the shortest buffer is long enough for direct reads, useBuffers cuts at pages and sets p.pageAligned. Otherwise it clears p.hasScratch. It
// sets p.pieceCapacity to the bytes of a slot for what is handed out. They are half of the slot if p.hasScratch, since the other half then
// takes what is read to be converted. useBuffers fails with ErrRange for less than two buffers, for an empty one, or if two overlap.
func (p *streamPlan) useBuffers(buffers [][]byte, largest uint64) error {
	if len(buffers) < 2 {
		return fmt.Errorf("%w: %d buffers to stream into: one is filled while another one is used", ErrRange, len(buffers))
	}
	for i, a := range buffers {
		for k, b := range buffers[:i] {
			if mmapio.Overlap(a, b) {
				return fmt.Errorf("%w: buffers %d and %d to stream into overlap", ErrRange, k, i)
			}
		}
	}
	shortest := func(buffers [][]byte) uint64 {
		return uint64(len(slices.MinFunc(buffers, func(a, b []byte) int { return cmp.Compare(len(a), len(b)) })))
	}
	used := shortest(buffers) // bytes of each buffer
	if used == 0 {
		return fmt.Errorf("%w: a buffer of no bytes to stream into", ErrRange)
	}
	if p.pageAligned = used >= minDirect+mmapio.DirectAlignment; p.pageAligned {
		buffers = slices.Clone(buffers)
		for i, b := range buffers {
			buffers[i] = mmapio.AlignUp(b, mmapio.DirectAlignment)
		}
		used = shortest(buffers) &^ (mmapio.DirectAlignment - 1) // down to whole pages
	}
	slotBytes := min(used, largest)
	for _, b := range buffers {
		p.slots = slices.AppendSeq(p.slots, slices.Chunk(b[:used/slotBytes*slotBytes], int(slotBytes)))
	}
	p.pieceCapacity = slotBytes
	if p.hasScratch = p.hasScratch && p.pageAligned; p.hasScratch {
		p.pieceCapacity = (slotBytes / 2) &^ (mmapio.DirectAlignment - 1)
	}
	return nil
}

// isUnscaledInteger reports whether t has integers or booleans without a scale, such as positions or token numbers: F16 and BF16 cannot
// hold large ones. It fails if the file's metadata, which may have the scale, cannot be read.
func isUnscaledInteger(ctx context.Context, t Tensor) (bool, error) {
	desc := t.desc()
	isInteger := slices.Contains([]layout.Kind{layout.KindInt, layout.KindUint, layout.KindBool}, desc.DType.Kind())
	if !isInteger || t.isLogical() || desc.DType.HeadBytes() > 0 {
		return false, nil
	}
	_, scaled, err := t.file().scale(ctx, desc)
	return !scaled, err
}

// planTensor returns how t is handed out: with elements of the type as, or as t is stored. t is handed out as it is stored if as is
// layout.Invalid, or if t has integers without a scale. planTensor fails if t cannot be handed out that way. It fails with ErrRange if half
// a slot, or a whole one without p.hasScratch, is too small for one block of elements.
func (p *streamPlan) planTensor(ctx context.Context, t Tensor, as layout.DType) (*streamTensor, error) {
	if as != layout.Invalid {
		if keepsType, err := isUnscaledInteger(ctx, t); err != nil {
			return nil, err
		} else if keepsType {
			as = layout.Invalid
		}
	}
	out, s, desc := &streamTensor{Tensor: t, as: as}, t.state(), t.desc()
	if as == layout.Invalid {
		if err := t.checkBytes(); err != nil {
			return nil, err
		}
		out.size, out.headBytes, out.blockBytes = desc.Raw, uint64(desc.DType.HeadBytes()), uint64(max(1, desc.DType.BlockBytes()))
		out.isFileBytes = isRaw(desc)
	} else {
		if err := s.values.Uncached.Err(); err != nil {
			return nil, err
		}
		out.blockBytes = uint64(as.BlockBytes())
		out.size = t.Elements() * out.blockBytes
		if isRaw(desc) && s.codec() != nil {
			out.isFileBytes = desc.DType == as
			out.isConverted = !out.isFileBytes && p.hasScratch
		}
	}
	out.isFileBytes = out.isFileBytes && out.size > 0
	out.stepBytes = out.bestStep()
	least := min(out.headBytes+out.blockBytes, out.size)
	if p.pageAligned {
		least += mmapio.DirectAlignment - 1 // a range of a file may begin anywhere in the first page of a slot
	}
	if least > p.pieceCapacity {
		return nil, fmt.Errorf("%w: a buffer of %d bytes to stream into holds no block of %d", ErrRange, p.pieceCapacity, out.headBytes+out.blockBytes)
	}
	return out, nil
}

// bestStep returns how many bytes of t are best made at once, a multiple of t.blockBytes. It returns one block for bytes of the file,
// and one row for converted elements of a matrix. For others it returns the size of an LZ4 block, or one block of a dtype whose blocks
// do not divide that size.
func (t *streamTensor) bestStep() uint64 {
	shape := t.Shape()
	switch {
	case t.isFileBytes:
		return t.blockBytes
	case t.as != layout.Invalid && len(shape) > 1:
		return t.blockBytes * max(1, uint64(shape[len(shape)-1])) // groups lie along rows
	case lz4block.Size%t.blockBytes == 0:
		return lz4block.Size
	}
	return t.blockBytes
}

// nextLoad returns the next load: pieces of as many consecutive tensors as fit a slot. more is false for the last load: nextLoad must
// not be called again. A tensor without bytes is one piece of no bytes. The plan has at least one load.
func (p *streamPlan) nextLoad() (load []plannedPiece, more bool) {
	for p.nextTensor < len(p.tensors) {
		piece := plannedPiece{tensor: p.tensors[p.nextTensor], off: p.nextOff}
		if !p.place(&piece, load) {
			return load, true
		}
		load = append(load, piece)
		if p.nextOff += piece.size; p.nextOff == piece.tensor.size {
			p.nextTensor, p.nextOff = p.nextTensor+1, 0
		}
	}
	return load, false
}

// place sets where in the slot the piece begins, behind the pieces of the load, and its size. It returns false if the piece must begin another
// load: if the slot has too little memory left, or if the piece cannot be read or made with the others. In page-aligned slots a
// range of a file begins where it does in its page, as direct reads need.
func (p *streamPlan) place(piece *plannedPiece, load []plannedPiece) bool {
	t := piece.tensor
	switch {
	case len(load) > 0:
		last := &load[len(load)-1]
		end := last.slotOff + last.size
		piece.slotOff = (end + 63) &^ 63 // up to a multiple of 64, where a cache line begins
		isSameKind := t.isFileBytes == last.tensor.isFileBytes
		if isSameKind && t.isFileBytes {
			fileEnd := last.fileOff() + last.size
			piece.slotOff = end + piece.fileOff() - fileEnd
			isSameKind = t.streamFile == last.tensor.streamFile && plan.Adjacent(t.streamFile, fileEnd, piece.fileOff())
		}
		least := min(t.headBytes+t.stepBytes, t.size-piece.off) // with memory for less, the piece begins another load
		if !isSameKind || piece.slotOff >= p.pieceCapacity || least > p.pieceCapacity-piece.slotOff {
			return false
		}
	case t.isFileBytes && p.pageAligned:
		piece.slotOff = piece.fileOff() % mmapio.DirectAlignment
	}
	piece.size = t.bytesThatFit(piece.off, p.pieceCapacity-piece.slotOff)
	return true
}

// bytesThatFit returns how many bytes of t, from off on, go into capacity bytes of a slot. It returns all that are left if they fit.
// Otherwise it returns as many whole steps as fit, or else as many whole blocks. The tensor's head comes before the first block.
// capacity is enough for the head and one block, or for all that is left.
func (t *streamTensor) bytesThatFit(off, capacity uint64) uint64 {
	if t.size-off <= capacity {
		return t.size - off
	}
	head, step := t.headBytes, t.stepBytes
	if off > 0 {
		head = 0
	}
	if capacity-head < step {
		step = t.blockBytes
	}
	return head + (capacity-head)/step*step // down to whole steps
}

// handedOut frees what is no longer needed once piece was handed out. After the last piece of a tensor, it unpins what the cache has of the
// whole tensor. After the last piece of a file, it closes the file's handles.
func (p *streamPlan) handedOut(piece *plannedPiece) {
	if t := piece.tensor; piece.off+piece.size == t.size {
		p.model.cache.Unpin(&t.pins)
		if t == t.streamFile.lastTensor {
			t.streamFile.close()
		}
	}
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

// result returns how many bytes of each file were read by which way, and why, in the order of Model.Files. No reader may be left.
func (p *streamPlan) result() (files []StreamedFile) {
	for _, f := range p.files {
		files = append(files, f.result)
	}
	slices.SortFunc(files, func(a, b StreamedFile) int { return a.File - b.File })
	return files
}
