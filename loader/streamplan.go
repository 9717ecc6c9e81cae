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
	model    *Model
	as       layout.DType // layout.Invalid for elements as they are stored
	buffers  [][]byte     // as much of each as is used
	capacity uint64       // bytes of a buffer
	outBytes uint64       // bytes of a buffer for what is handed out: all, or half if the other one takes what is read to be converted
	paged    bool         // bytes of a file begin in a buffer where they do in their page, and capacity is whole pages
	total    uint64       // bytes that are handed out
	waits    bool         // for a network
	files    map[*file]*streamFile
	tensors  []*streamTensor

	at  int    // the tensor that the next load begins with
	off uint64 // where in it
}

// load is what fills a buffer at once.
type load struct {
	file   *streamFile // whose bytes lie in the buffer as they lie there; nil if each part is made by itself
	off, n uint64      // of the bytes in the file
	lead   uint64      // where they begin in the buffer
	parts  []streamPart
}

// streamPart is a share of a load that belongs to one tensor.
type streamPart struct {
	of  *streamTensor
	off uint64 // in the tensor, in bytes that are handed out
	at  uint64 // in the buffer
	n   uint64 // bytes
}

// streamTensor is a tensor that is handed out.
type streamTensor struct {
	Tensor
	from   *streamFile
	as     layout.DType  // of the elements that are handed out; layout.Invalid: as they are stored
	size   uint64        // bytes that are handed out
	placed bool          // they are bytes of the file, decrypted
	stored *values.Typed // what they are made of, if that is bytes of the file, decrypted, and a buffer can take them too; else nil
	head   uint64        // bytes before the first block
	block  uint64        // bytes that stay together
	step   uint64        // bytes that had better be made together, a multiple of block

	pins cache.Pins   // of what is had as a whole, until the last part is made
	left atomic.Int64 // parts to be made, and 1 until all are planned
}

// minDirect is the least memory of a buffer for direct reads.
const minDirect = 64 << 10

// maxLoad bounds what is read at once: a function that copies it finds it in the processor's cache. Several readers keep a disk busy
// with such reads.
const maxLoad = 1 << 20

// maxRequest is maxLoad where reading may wait for a network.
const maxRequest = 8 << 20

// newStreamPlan returns the plan of the tensors for the options, and reads nothing. It fails if the buffers are too few, too small or
// overlap, or if a tensor cannot be had so.
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
	if p.waits = slices.ContainsFunc(tensors, func(t Tensor) bool { return t.file().data.Waits() }); p.waits {
		largest = maxRequest
		if slices.ContainsFunc(tensors, func(t Tensor) bool { return t.file().decrypted != nil }) {
			largest /= 2 // encrypted bytes take as much memory of the process
		}
	}
	if err := p.lend(opts.Buffers, largest); err != nil {
		return nil, inFile(m.path, err)
	}
	for _, t := range tensors {
		s, err := p.tensor(ctx, t)
		if err != nil {
			return nil, t.wrap(err)
		}
		s.from = p.fileOf(t, opts.Backing)
		p.tensors = append(p.tensors, s)
		p.total += s.size
		s.left.Add(1)
		s.from.left.Add(1)
	}
	return p, nil
}

// ahead returns how many parts of buffers are filled before they are handed out: two of each reader. Over a network all are, since
// it may pause.
func (p *streamPlan) ahead(readers int) int {
	if p.waits {
		return len(p.buffers)
	}
	return min(len(p.buffers), 2*readers)
}

// lend sets what is used of the buffers, in parts of equal size: at most largest bytes. The error is ErrRange.
func (p *streamPlan) lend(buffers [][]byte, largest uint64) error {
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
	if p.paged = p.capacity >= minDirect+mmapio.DirectAlignment; p.paged {
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
	p.buffers, p.capacity, p.outBytes = parts, each, each
	if p.as != layout.Invalid && p.paged {
		p.outBytes = each / 2 &^ (mmapio.DirectAlignment - 1)
	}
	return nil
}

// isUnscaledInteger reports whether t has integers or booleans without a scale: positions or token numbers, say, which F16 and BF16 cannot
// hold. It fails if the scale cannot be told.
func isUnscaledInteger(ctx context.Context, t Tensor) (bool, error) {
	desc := t.desc()
	switch desc.DType.Kind() {
	case layout.KindInt, layout.KindUint, layout.KindBool:
		if t.logical() || desc.DType.HeadBytes() > 0 {
			return false, nil
		}
		_, scaled, err := t.file().scale(ctx, desc)
		return !scaled, err
	}
	return false, nil
}

// tensor returns what is handed out of t. The error says why that cannot be had, or is ErrRange if a buffer holds no block.
func (p *streamPlan) tensor(ctx context.Context, t Tensor) (*streamTensor, error) {
	s, desc := t.state(), t.desc()
	out := &streamTensor{Tensor: t, as: p.as}
	if p.as != layout.Invalid {
		if keeps, err := isUnscaledInteger(ctx, t); err != nil {
			return nil, err
		} else if keeps {
			out.as = layout.Invalid
		}
	}
	if out.as == layout.Invalid {
		if err := s.bytesErr(); err != nil {
			return nil, err
		}
		out.size, out.head, out.block = desc.Raw, uint64(desc.DType.HeadBytes()), uint64(max(1, desc.DType.BlockBytes()))
		out.placed = desc.Encoding == layout.Raw
	} else {
		if err := s.values.Err(); err != nil {
			return nil, err
		}
		out.block = uint64(out.as.BlockBytes())
		out.size = t.Elements() * out.block
		typed, ok := s.values.Values.(*values.Typed)
		raw := ok && desc.Encoding == layout.Raw
		if out.placed = raw && desc.DType == out.as && typed.Codec == plainCodec(out.as); !out.placed && raw && typed.Codec != nil && p.outBytes < p.capacity {
			out.stored = typed
		}
	}
	out.step = out.block
	if rows := t.Shape(); !out.placed && out.as != layout.Invalid && len(rows) > 1 {
		out.step *= max(1, uint64(rows[len(rows)-1])) // groups lie along rows
	} else if !out.placed && lz4block.Size%out.block == 0 {
		out.step = lz4block.Size
	}
	if need := out.head + out.block + p.mostLead(); min(need, out.size+p.mostLead()) > p.outBytes {
		return nil, fmt.Errorf("%w: a buffer of %d bytes to stream into holds no block of %d", ErrRange, p.outBytes, out.head+out.block)
	}
	return out, nil
}

// mostLead returns how far behind the start of a buffer bytes of a file may begin.
func (p *streamPlan) mostLead() uint64 {
	if p.paged {
		return mmapio.DirectAlignment - 1
	}
	return 0
}

// fileOf returns the file of t's stored bytes, to be read by backing.
func (p *streamPlan) fileOf(t Tensor, backing Backing) *streamFile {
	f := t.file()
	if p.files[f] == nil {
		p.files[f] = &streamFile{file: f, position: t.File(), backing: backing}
	}
	return p.files[f]
}

// next returns the load that follows, and whether others do. There must be one. A tensor without bytes is one part.
func (p *streamPlan) next() (l load, more bool) {
	for p.at < len(p.tensors) {
		s := p.tensors[p.at]
		at, ok := p.place(&l, s, p.off)
		if !ok {
			return l, true
		}
		n := s.upTo(p.off, p.outBytes-at)
		l.parts = append(l.parts, streamPart{of: s, off: p.off, at: at, n: n})
		s.left.Add(1)
		if s.placed {
			l.n = s.desc().Offset + p.off + n - l.off
		} else {
			l.n = at + n
			s.from.left.Add(1)
		}
		if p.off += n; p.off == s.size {
			p.at, p.off = p.at+1, 0
			p.made(s)
			s.from.loaded()
		}
	}
	return l, false
}

// place returns where bytes of s from off on begin in the buffer of a load. It is not ok if the load has other bytes, behind which they
// do not follow, or too little capacity. An empty load becomes one for s.
func (p *streamPlan) place(l *load, s *streamTensor, off uint64) (at uint64, ok bool) {
	inFile, capacity := s.desc().Offset+off, p.outBytes
	if len(l.parts) == 0 {
		if s.placed {
			l.file, l.off = s.from, inFile
			if p.paged {
				l.lead = inFile % mmapio.DirectAlignment
			}
			l.file.left.Add(1)
		}
		return l.lead, true
	}
	wants := min(s.head+s.block, s.size-off) // at least
	if s.placed {
		ok = l.file == s.from && inFile >= l.off && plan.Adjacent(s.from, l.off+l.n, inFile)
		at = l.lead + inFile - l.off
	} else {
		ok = l.file == nil
		at = (l.n + 63) &^ 63
		wants = min(s.step, s.size-off)
	}
	return at, ok && at < capacity && wants <= capacity-at
}

// upTo returns how many bytes of s from off on fill capacity: whole steps, or else whole blocks, or all that are left.
func (s *streamTensor) upTo(off, capacity uint64) uint64 {
	if s.size-off <= capacity {
		return s.size - off
	}
	head := s.head
	if off > 0 {
		head = 0
	}
	if n := (capacity - head) / s.step * s.step; n > 0 {
		return head + n
	}
	return head + (capacity-head)/s.block*s.block
}
