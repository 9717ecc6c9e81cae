package loader

import (
	"context"
	"os"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/mmapio"
)

// load is a tensor of a model that is not mapped on its way into the cache. Its bytes may
// come by several readers.
type load struct {
	tensor Tensor
	had    *atomic.Uint64 // counts bytes that the cache has already

	begin  sync.Once
	stored *mmapio.Gathering[byte] // nil if the cache has the tensor
	err    error                   // why there is no memory
}

// Room returns memory for stored bytes, unless the cache has the tensor.
func (l *load) Room(at, n uint64) ([]byte, error) {
	l.begin.Do(func() {
		t := l.tensor
		if _, ok := t.file.model.cache.Peek(cache.Key{Tensor: t.desc, Kind: cache.Elements}, nil); ok {
			return
		}
		l.stored, l.err = mmapio.NewGathering[byte](t.desc.Stored, func() (bool, error) {
			if _, local := t.file.reader.(*os.File); t.file.reader != nil && !local {
				return false, nil // a request less: what comes now will tell
			}
			return t.file.mapping.Probe(t.desc.Offset, t.desc.Stored)
		})
	})
	switch {
	case l.err != nil:
		return nil, l.tensor.wrap(l.err)
	case l.stored == nil:
		l.had.Add(n)
		return nil, nil
	}
	return l.stored.Room(at, n), nil
}

// Arrived hands the tensor over to the cache if this was the last of it.
func (l *load) Arrived(at uint64, room []byte) error {
	all, err := l.stored.Arrived(at, room)
	if err == nil && all {
		stored := l.stored.Whole()
		l.stored = nil
		_, err = l.tensor.kept(cache.Elements, func(t Tensor) (cache.Buffer, error) { return t.elementsOf(stored) })
	}
	if err != nil {
		return l.tensor.wrap(err)
	}
	return nil
}

// elementsOf makes the elements of the stored bytes. Memory for them is taken once the
// blocks of a compressed tensor are there.
func (t Tensor) elementsOf(stored []byte) (b cache.Buffer, err error) {
	switch t.desc.Encoding {
	case layout.LZ4:
		b.Bytes, err = t.blocks().Decode(stored)
		return b, err
	case layout.Protobuf:
		return t.unpack(&fetched{t.file.mapping, t.desc.Offset, stored})
	}
	return cache.Buffer{Bytes: stored}, nil
}

// unpack makes the elements of a packed tensor, whose stored bytes are known to be in the file.
// Decoders allow no more elements than these can hold.
func (t Tensor) unpack(in layout.Input) (b cache.Buffer, err error) {
	b.Bytes = mmapio.AlignedBytes(int(t.desc.Raw))
	return b, t.file.layout.(layout.Unpacker).Unpack(in, t.desc, b.Bytes)
}

// fetched is a file of which a part is in memory.
type fetched struct {
	layout.Input
	off  uint64
	part []byte
}

func (f *fetched) Slice(off, n uint64) ([]byte, error) {
	if off >= f.off && layout.Within(off-f.off, n, uint64(len(f.part))) {
		return f.part[off-f.off:][:n:n], nil
	}
	return f.Input.Slice(off, n)
}

// vectorReader is a reader that fills several buffers with what lies together, at once.
type vectorReader interface {
	ReadVector(ctx context.Context, bufs [][]byte, off int64) error
}

// Mapping, Align, Fill and Wrap make f a plan.File.
func (f *file) Mapping() *mmapio.Mapping { return f.mapping }
func (f *file) Align() uint64            { return f.index.Align }

// Fill fills the buffers, at once if the reader can.
func (f *file) Fill(ctx context.Context, buffers []plan.Padded, off uint64) error {
	if v, ok := f.reader.(vectorReader); ok {
		var bufs [][]byte
		for _, p := range buffers {
			bufs = append(bufs, make([]byte, p.Gap), p.B)
		}
		return v.ReadVector(ctx, bufs, int64(off))
	}
	f = f.during(ctx)
	for _, p := range buffers {
		if err := ctx.Err(); err != nil {
			return err
		}
		off += p.Gap
		if err := f.readFull(p.B, off); err != nil {
			return err
		}
		off += uint64(len(p.B))
	}
	return nil
}

// present reads the last stored byte. It reports whether memory for all elements may then be
// taken: those of a compressed tensor exist if all of its blocks do, which are counted in
// memory only. Elsewhere that would take a read for each.
func (t Tensor) present() (sure bool, err error) {
	compressed := t.desc.Encoding == layout.LZ4
	if compressed && !t.file.mapping.Aliased() {
		return false, nil
	}
	sure, err = t.file.mapping.Probe(t.desc.Offset, t.desc.Stored)
	if err == nil && compressed {
		err = mmapio.Guard(t.blocks().Walk)
	}
	return sure, err
}
