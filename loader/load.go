package loader

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// load is a tensor of a model that is not mapped on its way into the cache. Its bytes may
// come by several readers.
type load struct {
	tensor Tensor
	begin  func() []byte // memory for the stored bytes; nil where the cache has the tensor
	left   atomic.Uint64 // bytes to come
}

// part is what of a portion is for one tensor.
type part struct {
	load *load
	gap  uint64 // bytes of padding before it
	at   uint64 // where in the stored bytes it begins
	n    uint64
}

func newLoad(t Tensor) *load {
	l := &load{tensor: t}
	l.left.Store(t.desc.Stored)
	l.begin = sync.OnceValue(func() []byte {
		if _, ok := t.file.model.cache.peek(cacheKey{t.desc, kindElements}); ok {
			return nil
		}
		return mmapio.AlignedBytes(int(t.desc.Stored))
	})
	return l
}

// load reads a portion of a file that is not mapped.
func (w *warming) load(ctx context.Context, p *portion) (resident uint64, err error) {
	var run [][]byte // of memory that is filled by one read
	var size uint64
	off := p.off
	flush := func() error {
		if size > 0 {
			if err := w.rate.wait(ctx, size); err != nil {
				return err
			}
			if err := p.file.readVector(ctx, run, off-size); err != nil {
				return p.file.wrap(err)
			}
		}
		run, size = nil, 0
		return nil
	}
	for _, part := range p.parts {
		b := part.load.begin()
		if b == nil || size == 0 { // padding is read only where it is between two tensors
			if err := flush(); err != nil {
				return resident, err
			}
			off += part.gap
		} else {
			run = append(run, make([]byte, part.gap))
			size += part.gap
			off += part.gap
		}
		off += part.n
		if b == nil {
			resident += part.n
			continue
		}
		run = append(run, b[part.at:part.at+part.n])
		size += part.n
	}
	if err := flush(); err != nil {
		return resident, err
	}
	for _, part := range p.parts {
		if err := part.arrived(); err != nil {
			return resident, err
		}
	}
	return resident, nil
}

// arrived hands the tensor over to the cache if this was the last of it.
func (p *part) arrived() error {
	l := p.load
	if l.left.Add(-p.n) > 0 || l.begin() == nil {
		return nil
	}
	t := l.tensor
	_, err := t.file.model.cache.get(cacheKey{t.desc, kindElements}, nil, func() (buffer, error) {
		return t.elementsOf(l.begin())
	})
	if err != nil {
		return t.wrap(err)
	}
	return nil
}

// elementsOf makes the elements of the stored bytes.
func (t Tensor) elementsOf(stored []byte) (buffer, error) {
	switch t.desc.Encoding {
	case layout.Raw:
		return buffer{bytes: stored}, nil
	case layout.LZ4:
		dst := mmapio.AlignedBytes(int(t.desc.Raw))
		return buffer{bytes: dst}, t.decodeBlocks(dst, stored)
	}
	return t.copyElements() // which reads once more
}

// vectorReader is a reader that fills several buffers with what lies together, at once.
type vectorReader interface {
	ReadVector(ctx context.Context, bufs [][]byte, off int64) error
}

// readVector fills one buffer after another with the bytes from off on.
func (f *file) readVector(ctx context.Context, bufs [][]byte, off uint64) error {
	if r, ok := f.reader.(vectorReader); ok {
		return r.ReadVector(ctx, bufs, int64(off))
	}
	for _, b := range bufs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.readFull(b, off); err != nil {
			return err
		}
		off += uint64(len(b))
	}
	return nil
}
