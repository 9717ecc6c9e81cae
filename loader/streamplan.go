package loader

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

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
	// Stream returns. Of each, as many bytes are used as the shortest has. Readers fill them in parts of at most 1 MiB, 2 with
	// As, or 8 if a file is read over a network. At most two parts for each reader are in use at a time, over a network all.
	// Other parts of large buffers stand in for those that are retained. With As, half of each part takes what is read before it
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
	// Progress, if set, is called with the number of bytes that were handed out and that of all bytes: in the caller's
	// goroutine, with done never falling.
	Progress func(done, total uint64)
}

// Backing is a way by which Stream brings bytes of a file into a buffer.
type Backing uint8

const (
	// BackingAuto is BackingDirect for bytes that are not in the page cache, if the file system can, and BackingRead for
	// others.
	BackingAuto Backing = iota
	// BackingMap copies from the mapping, whose pages are first brought into memory by large requests and then released again.
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
	Why    string // what decided that; "" if nothing of the file was read
}

// streamPlan is what Stream reads into buffers, in the order in which it is handed out.
type streamPlan struct {
	model         *Model
	as            layout.DType // layout.Invalid for elements as they are stored
	buffers       [][]byte     // as much of each as is used
	capacity      uint64       // bytes of a buffer
	pieceCapacity uint64       // bytes of a buffer for what is handed out: all, or half if the other half takes what is read to be converted
	pageAligned   bool         // bytes of a file begin in a buffer where they do in their page, and capacity is whole pages
	total         uint64       // bytes that are handed out
	mayWait       bool         // for a network
	files         map[*file]*streamFile
	tensors       []*streamTensor

	nextTensor int    // the tensor that the next load begins with
	nextOff    uint64 // where in it
}

// bufferLoad says what fills one buffer at a time: a range of a file, or parts that are made one by one.
type bufferLoad struct {
	file          *streamFile // whose range fills the buffer; nil if each part is made by itself
	fileOff, size uint64      // the range of the file
	bufferOff     uint64      // where the range begins in the buffer
	parts         []streamPart
}

// streamPart is the share of a load that belongs to one tensor.
type streamPart struct {
	tensor    *streamTensor
	tensorOff uint64 // in the tensor, in bytes that are handed out
	bufferOff uint64 // in the buffer
	size      uint64 // bytes
}

// streamFile is a file that Stream reads.
type streamFile struct {
	*file
	position  int          // of the file in Model.Files
	backing   Backing      // that the caller has asked for
	readsLeft atomic.Int64 // loads and parts that are not yet read, and tensors that are not yet planned

	mappedBytes, readBytes, directBytes atomic.Uint64 // bytes that came so

	mu           sync.Mutex
	isDecided    bool
	indirectWay  Backing  // for bytes that are not read direct
	directFailed bool     // a direct read has failed
	cachedHandle *os.File // reads it through the page cache; nil if the model's own file does
	directHandle *os.File // reads it past the page cache; or nil
	wasCached    []bool   // whether each residencyStep was in the page cache before; only for BackingAuto
	reason       string
}

// streamTensor is a tensor that is handed out.
type streamTensor struct {
	Tensor
	streamFile   *streamFile
	as           layout.DType  // of the elements that are handed out; layout.Invalid: as they are stored
	size         uint64        // bytes that are handed out
	isFileBytes  bool          // what is handed out is stored in the file like that, if encrypted
	storedValues *values.Typed // converts what a buffer reads from the file; nil if nothing is converted, or the elements are not read so
	headBytes    uint64        // bytes before the first block
	blockBytes   uint64        // bytes that stay together
	stepBytes    uint64        // bytes that are best made together, a multiple of blockBytes

	pins      cache.Pins   // of what is had as a whole, until the last part is made
	partsLeft atomic.Int64 // parts that are planned and not yet made, and 1 until all are planned
}

// minDirect is the least memory of a buffer for direct reads.
const minDirect = 64 << 10

// maxLoad bounds what is read at once: a function that copies it finds it in the processor's cache. Several readers keep a disk busy
// with such reads.
const maxLoad = 1 << 20

// maxRequest is maxLoad where reading may wait for a network.
const maxRequest = 8 << 20

// newStreamPlan returns the plan for streaming the tensors with the options. It reads no elements, but may read metadata. It fails if
// the buffers are too few, too small or overlap, or if a tensor cannot be handed out as the type opts.As.
func newStreamPlan(ctx context.Context, m *Model, tensors []Tensor, opts *StreamOptions) (*streamPlan, error) {
	p := &streamPlan{model: m, as: opts.As, files: make(map[*file]*streamFile)}
	if p.as != layout.Invalid {
		if err := values.Encodable(p.as); err != nil {
			return nil, inFile(m.path, err)
		}
	}
	largest := uint64(maxLoad)
	if p.as != layout.Invalid {
		largest *= 2 // half of it takes what is read to be converted
	}
	if p.mayWait = slices.ContainsFunc(tensors, func(t Tensor) bool { return t.file().data.Waits() }); p.mayWait {
		largest = maxRequest // also with opts.As: half of it is a large request still
		if slices.ContainsFunc(tensors, func(t Tensor) bool { return t.file().decrypted != nil }) {
			largest /= 2 // encrypted bytes take as much memory of the process
		}
	}
	if err := p.useBuffers(opts.Buffers, largest); err != nil {
		return nil, inFile(m.path, err)
	}
	for _, t := range tensors {
		s, err := p.planTensor(ctx, t)
		if err != nil {
			return nil, t.wrap(err)
		}
		s.streamFile = p.streamFileOf(t, opts.Backing)
		p.tensors = append(p.tensors, s)
		p.total += s.size
		s.partsLeft.Add(1)            // until nextLoad has planned the last part of s: the count must not be 0 before
		s.streamFile.readsLeft.Add(1) // likewise
	}
	return p, nil
}

// buffersInTurn returns how many buffers may be free, being filled or handed out at a time: two for each reader. It returns all if
// reading may wait for a network: what was read ahead then bridges the network's pauses.
func (p *streamPlan) buffersInTurn(readers int) int {
	if p.mayWait {
		return len(p.buffers)
	}
	return min(len(p.buffers), 2*readers)
}

// useBuffers cuts the caller's buffers into p.buffers, which have p.capacity bytes each. p.capacity is largest, or the length of the
// shortest of buffers if that is less. If that length is enough for direct reads, useBuffers cuts at pages and sets p.pageAligned.
// p.pieceCapacity is how many bytes of a buffer are for what is handed out: all, or half if p.as is a type to convert to and
// p.pageAligned is set. useBuffers fails with ErrRange for less than two buffers, for an empty one, or if two overlap.
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
	p.buffers, p.capacity = slices.Clone(buffers), shortest(buffers)
	if p.capacity == 0 {
		return fmt.Errorf("%w: a buffer of no bytes to stream into", ErrRange)
	}
	if p.pageAligned = p.capacity >= minDirect+mmapio.DirectAlignment; p.pageAligned {
		for i, b := range p.buffers {
			p.buffers[i] = mmapio.AlignUp(b, mmapio.DirectAlignment)
		}
		p.capacity = shortest(p.buffers) &^ (mmapio.DirectAlignment - 1) // down to whole pages
	}
	each := min(p.capacity, largest)
	var parts [][]byte
	for _, b := range p.buffers {
		parts = slices.AppendSeq(parts, slices.Chunk(b[:p.capacity/each*each], int(each)))
	}
	p.buffers, p.capacity, p.pieceCapacity = parts, each, each
	if p.as != layout.Invalid && p.pageAligned { // the other half takes what is read from the file to be converted
		p.pieceCapacity = (each / 2) &^ (mmapio.DirectAlignment - 1)
	}
	return nil
}

// isUnscaledInteger reports whether t has integers or booleans without a scale, such as positions or token numbers: F16 and BF16 cannot
// hold large ones. It fails if the file's metadata, which may have the scale, cannot be read.
func isUnscaledInteger(ctx context.Context, t Tensor) (bool, error) {
	desc := t.desc()
	switch desc.DType.Kind() {
	case layout.KindInt, layout.KindUint, layout.KindBool:
		if t.isLogical() || desc.DType.HeadBytes() > 0 {
			return false, nil
		}
		_, scaled, err := t.file().scale(ctx, desc)
		return !scaled, err
	}
	return false, nil
}

// planTensor returns how t is handed out: with elements of the type p.as, or as it is stored. It is handed out as it is stored if p.as
// is layout.Invalid, or if t has integers without a scale. planTensor fails if the elements cannot be read so. It fails with ErrRange
// if a buffer is too small for one block of them.
func (p *streamPlan) planTensor(ctx context.Context, t Tensor) (*streamTensor, error) {
	out := &streamTensor{Tensor: t, as: p.as}
	if p.as != layout.Invalid {
		if keepsType, err := isUnscaledInteger(ctx, t); err != nil {
			return nil, err
		} else if keepsType {
			out.as = layout.Invalid
		}
	}
	var err error
	if out.as == layout.Invalid {
		err = out.planStored()
	} else {
		err = out.planConverted(p.pieceCapacity < p.capacity) // then useBuffers has left half of each buffer as scratch
	}
	if err != nil {
		return nil, err
	}
	out.stepBytes = out.bestStep()
	least := min(out.headBytes+out.blockBytes, out.size)
	if least+p.maxBufferOff() > p.pieceCapacity {
		return nil, fmt.Errorf("%w: a buffer of %d bytes to stream into holds no block of %d", ErrRange, p.pieceCapacity, out.headBytes+out.blockBytes)
	}
	return out, nil
}

// planStored sets the sizes of t, whose elements keep their type, and whether they are bytes of the file. It fails if they cannot be
// read.
func (t *streamTensor) planStored() error {
	if err := t.state().bytesErr(); err != nil {
		return err
	}
	desc := t.desc()
	t.size, t.headBytes, t.blockBytes = desc.Raw, uint64(desc.DType.HeadBytes()), uint64(max(1, desc.DType.BlockBytes()))
	t.isFileBytes = desc.Encoding == layout.Raw
	return nil
}

// planConverted sets the sizes of t, whose elements become t.as. If the file has them so already, without a scale, it sets
// t.isFileBytes. hasScratch means that each buffer has a half for bytes to convert. If it is true, and the elements can be read into
// that half raw, planConverted sets t.storedValues. It fails if t has no values.
func (t *streamTensor) planConverted(hasScratch bool) error {
	s := t.state()
	if err := s.values.Err(); err != nil {
		return err
	}
	t.blockBytes = uint64(t.as.BlockBytes())
	t.size = t.Elements() * t.blockBytes
	typed, ok := s.values.Values.(*values.Typed)
	if !ok || t.desc().Encoding != layout.Raw {
		return nil
	}
	t.isFileBytes = t.desc().DType == t.as && typed.Codec == plainCodec(t.as) // without a scale
	if !t.isFileBytes && hasScratch && typed.Codec != nil {
		t.storedValues = typed
	}
	return nil
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

// maxBufferOff returns the greatest offset in a buffer at which the range of a file may begin: in a page-aligned buffer, the range
// begins where it does in its page of the file.
func (p *streamPlan) maxBufferOff() uint64 {
	if p.pageAligned {
		return mmapio.DirectAlignment - 1
	}
	return 0
}

// streamFileOf returns the streamFile of the file that stores t. The first call for a file makes one, to be read by backing.
func (p *streamPlan) streamFileOf(t Tensor, backing Backing) *streamFile {
	f := t.file()
	if p.files[f] == nil {
		p.files[f] = &streamFile{file: f, position: t.File(), backing: backing}
	}
	return p.files[f]
}

// nextLoad returns the next load, with parts of as many consecutive tensors as fit a buffer. more is false for the last load: nextLoad
// must not be called again. A tensor without bytes is one part of no bytes. nextLoad counts what the load has to read and make: in
// readsLeft of files and partsLeft of tensors.
func (p *streamPlan) nextLoad() (l bufferLoad, more bool) {
	for p.nextTensor < len(p.tensors) {
		s := p.tensors[p.nextTensor]
		bufferOff, fits := p.placeInLoad(&l, s, p.nextOff)
		if !fits {
			return l, true
		}
		n := s.bytesThatFit(p.nextOff, p.pieceCapacity-bufferOff)
		l.parts = append(l.parts, streamPart{tensor: s, tensorOff: p.nextOff, bufferOff: bufferOff, size: n})
		s.partsLeft.Add(1)
		if s.isFileBytes {
			l.size = s.desc().Offset + p.nextOff + n - l.fileOff
		} else {
			l.size = bufferOff + n
			s.streamFile.readsLeft.Add(1)
		}
		if p.nextOff += n; p.nextOff == s.size {
			p.nextTensor, p.nextOff = p.nextTensor+1, 0
			p.partDone(s) // ends the counts of newStreamPlan: all parts are planned
			s.streamFile.readDone()
		}
	}
	return l, false
}

// placeInLoad returns where in the buffer of l the bytes of s, from off on, begin. If l has no parts, it makes l a load for s, and
// fits is true. Otherwise fits is false if the buffer has too little memory left. If s is bytes of the file, fits is false unless they
// follow the range of l. If s is made, fits is false if l has a file.
func (p *streamPlan) placeInLoad(l *bufferLoad, s *streamTensor, off uint64) (bufferOff uint64, fits bool) {
	if len(l.parts) == 0 {
		p.beginLoad(l, s, off)
		return l.bufferOff, true
	}
	least := s.stepBytes // that must fit: otherwise s begins the next load
	if s.isFileBytes {
		fileOff := s.desc().Offset + off
		if l.file != s.streamFile || !plan.Adjacent(s.streamFile, l.fileOff+l.size, fileOff) {
			return 0, false
		}
		bufferOff, least = l.bufferOff+fileOff-l.fileOff, s.headBytes+s.blockBytes
	} else {
		if l.file != nil {
			return 0, false
		}
		bufferOff = (l.size + 63) &^ 63 // up to a multiple of 64, where a cache line begins
	}
	least = min(least, s.size-off)
	return bufferOff, bufferOff < p.pieceCapacity && least <= p.pieceCapacity-bufferOff
}

// beginLoad makes l, which has no parts, a load for s from off on. If s is bytes of the file, l becomes a range of the file, which
// beginLoad counts in readsLeft. If p.pageAligned is set, the range begins in the buffer where it does in its page, as direct reads
// need.
func (p *streamPlan) beginLoad(l *bufferLoad, s *streamTensor, off uint64) {
	if !s.isFileBytes {
		return
	}
	l.file, l.fileOff = s.streamFile, s.desc().Offset+off
	if p.pageAligned {
		l.bufferOff = l.fileOff % mmapio.DirectAlignment
	}
	l.file.readsLeft.Add(1)
}

// bytesThatFit returns how many bytes of s, from off on, go into capacity bytes of a buffer. It returns all that are left if they fit.
// Otherwise it returns as many whole steps as fit, or else as many whole blocks. The tensor's head comes before the first block.
// capacity is enough for the head and one block, or for all that is left.
func (s *streamTensor) bytesThatFit(off, capacity uint64) uint64 {
	if s.size-off <= capacity {
		return s.size - off
	}
	head := s.headBytes
	if off > 0 {
		head = 0
	}
	if n := (capacity - head) / s.stepBytes * s.stepBytes; n > 0 {
		return head + n
	}
	return head + (capacity-head)/s.blockBytes*s.blockBytes // down to whole blocks
}
