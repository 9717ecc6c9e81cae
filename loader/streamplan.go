package loader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/loader/internal/values"
	"github.com/tensormap/tensormap/mmapio"
)

// streamPlan is what Stream reads into buffers, in the order in which it is handed out.
type streamPlan struct {
	model         *Model
	as            layout.DType // layout.Invalid for elements as they are stored
	buffers       [][]byte     // as much of each as is used
	capacity      uint64       // bytes of a buffer
	pieceCapacity uint64       // bytes of a buffer for what is handed out: all, or half if the other one takes what is read to be converted
	pageAligned   bool         // bytes of a file begin in a buffer where they do in their page, and capacity is whole pages
	total         uint64       // bytes that are handed out
	mayWait       bool         // for a network
	files         map[*file]*streamFile
	tensors       []*streamTensor

	nextTensor int    // the tensor that the next load begins with
	nextOff    uint64 // where in it
}

// bufferLoad fills one buffer: with a range of a file, or with parts that are made one by one.
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
	partsLeft atomic.Int64 // parts to be made, and 1 until all are planned
}

// minDirect is the least memory of a buffer for direct reads.
const minDirect = 64 << 10

// maxLoad bounds what is read at once: a function that copies it finds it in the processor's cache. Several readers keep a disk busy
// with such reads.
const maxLoad = 1 << 20

// maxRequest is maxLoad where reading may wait for a network.
const maxRequest = 8 << 20

// newStreamPlan returns the plan for streaming the tensors with the options. It reads no elements. It fails if the buffers are too
// few, too small or overlap, or if a tensor cannot be handed out as the type opts.As.
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
		largest = maxRequest
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
		s.partsLeft.Add(1)
		s.streamFile.readsLeft.Add(1)
	}
	return p, nil
}

// buffersInTurn returns how many buffers are being filled or wait to be handed out: two of each reader. Over a network these are
// all buffers, since it may pause.
func (p *streamPlan) buffersInTurn(readers int) int {
	if p.mayWait {
		return len(p.buffers)
	}
	return min(len(p.buffers), 2*readers)
}

// useBuffers divides the caller's buffers into p.buffers of equal size, at most largest bytes. The error is ErrRange if the caller's
// are less than two, overlap, or if one is empty.
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
		p.capacity = shortest(p.buffers) &^ (mmapio.DirectAlignment - 1)
	}
	each := min(p.capacity, largest)
	var parts [][]byte
	for _, b := range p.buffers {
		parts = slices.AppendSeq(parts, slices.Chunk(b[:p.capacity/each*each], int(each)))
	}
	p.buffers, p.capacity, p.pieceCapacity = parts, each, each
	if p.as != layout.Invalid && p.pageAligned {
		p.pieceCapacity = each / 2 &^ (mmapio.DirectAlignment - 1)
	}
	return nil
}

// isUnscaledInteger reports whether t has integers or booleans without a scale: positions or token numbers, say, which F16 and BF16 cannot
// hold. It fails if the file's metadata, which may have the scale, cannot be read.
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

// planTensor returns how t is handed out. It fails if the elements of t cannot be read as p.as, and with ErrRange if a buffer
// holds no block of them.
func (p *streamPlan) planTensor(ctx context.Context, t Tensor) (*streamTensor, error) {
	s, desc := t.state(), t.desc()
	out := &streamTensor{Tensor: t, as: p.as}
	if p.as != layout.Invalid {
		if keepsType, err := isUnscaledInteger(ctx, t); err != nil {
			return nil, err
		} else if keepsType {
			out.as = layout.Invalid
		}
	}
	if out.as == layout.Invalid {
		if err := s.bytesErr(); err != nil {
			return nil, err
		}
		out.size, out.headBytes, out.blockBytes = desc.Raw, uint64(desc.DType.HeadBytes()), uint64(max(1, desc.DType.BlockBytes()))
		out.isFileBytes = desc.Encoding == layout.Raw
	} else {
		if err := s.values.Err(); err != nil {
			return nil, err
		}
		out.blockBytes = uint64(out.as.BlockBytes())
		out.size = t.Elements() * out.blockBytes
		typed, ok := s.values.Values.(*values.Typed)
		raw := ok && desc.Encoding == layout.Raw
		if out.isFileBytes = raw && desc.DType == out.as && typed.Codec == plainCodec(out.as); !out.isFileBytes && raw && typed.Codec != nil && p.pieceCapacity < p.capacity {
			out.storedValues = typed
		}
	}
	out.stepBytes = out.blockBytes
	if rows := t.Shape(); !out.isFileBytes && out.as != layout.Invalid && len(rows) > 1 {
		out.stepBytes *= max(1, uint64(rows[len(rows)-1])) // groups lie along rows
	} else if !out.isFileBytes && lz4block.Size%out.blockBytes == 0 {
		out.stepBytes = lz4block.Size
	}
	if need := out.headBytes + out.blockBytes + p.maxBufferOff(); min(need, out.size+p.maxBufferOff()) > p.pieceCapacity {
		return nil, fmt.Errorf("%w: a buffer of %d bytes to stream into holds no block of %d", ErrRange, p.pieceCapacity, out.headBytes+out.blockBytes)
	}
	return out, nil
}

// maxBufferOff returns the greatest offset in a buffer at which the range of a file may begin.
func (p *streamPlan) maxBufferOff() uint64 {
	if p.pageAligned {
		return mmapio.DirectAlignment - 1
	}
	return 0
}

// streamFileOf returns the file that stores t, to be read by backing.
func (p *streamPlan) streamFileOf(t Tensor, backing Backing) *streamFile {
	f := t.file()
	if p.files[f] == nil {
		p.files[f] = &streamFile{file: f, position: t.File(), backing: backing}
	}
	return p.files[f]
}

// nextLoad returns the next load. more says that another one follows. A caller that got more == false may not call it again. A
// tensor without bytes is one part.
func (p *streamPlan) nextLoad() (l bufferLoad, more bool) {
	for p.nextTensor < len(p.tensors) {
		s := p.tensors[p.nextTensor]
		at, ok := p.placeInLoad(&l, s, p.nextOff)
		if !ok {
			return l, true
		}
		n := s.bytesThatFit(p.nextOff, p.pieceCapacity-at)
		l.parts = append(l.parts, streamPart{tensor: s, tensorOff: p.nextOff, bufferOff: at, size: n})
		s.partsLeft.Add(1)
		if s.isFileBytes {
			l.size = s.desc().Offset + p.nextOff + n - l.fileOff
		} else {
			l.size = at + n
			s.streamFile.readsLeft.Add(1)
		}
		if p.nextOff += n; p.nextOff == s.size {
			p.nextTensor, p.nextOff = p.nextTensor+1, 0
			p.partDone(s)
			s.streamFile.readDone()
		}
	}
	return l, false
}

// placeInLoad returns at, where the bytes of s from off on begin in the buffer of l. ok is false if they do not follow the bytes
// that l has, or if the buffer is too small for both. If l has no parts yet, it becomes a load for s.
func (p *streamPlan) placeInLoad(l *bufferLoad, s *streamTensor, off uint64) (at uint64, ok bool) {
	inFile, capacity := s.desc().Offset+off, p.pieceCapacity
	if len(l.parts) == 0 {
		if s.isFileBytes {
			l.file, l.fileOff = s.streamFile, inFile
			if p.pageAligned {
				l.bufferOff = inFile % mmapio.DirectAlignment
			}
			l.file.readsLeft.Add(1)
		}
		return l.bufferOff, true
	}
	leastBytes := min(s.headBytes+s.blockBytes, s.size-off) // without room for these, the next load has s
	if s.isFileBytes {
		ok = l.file == s.streamFile && inFile >= l.fileOff && plan.Adjacent(s.streamFile, l.fileOff+l.size, inFile)
		at = l.bufferOff + inFile - l.fileOff
	} else {
		ok = l.file == nil
		at = (l.size + 63) &^ 63
		leastBytes = min(s.stepBytes, s.size-off)
	}
	return at, ok && at < capacity && leastBytes <= capacity-at
}

// bytesThatFit returns how many bytes of s, from off on, a buffer takes that has room for capacity bytes: all that are left, or
// else whole steps, or else whole blocks. The tensor's head comes before the first block.
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
	return head + (capacity-head)/s.blockBytes*s.blockBytes
}
