package loader

import (
	"context"
	"os"
	"sync"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/mmapio"
)

// load is a tensor of a model that is not mapped on its way into the cache. Its bytes may
// come by several readers.
type load struct {
	tensor Tensor

	begin  sync.Once
	stored *mmapio.Gathering[byte] // nil where the cache has the tensor
	err    error                   // why there is no memory
}

// part is what of a portion is for one tensor.
type part struct {
	load *load
	gap  uint64 // bytes of padding before it
	at   uint64 // where in the stored bytes it begins
	n    uint64
	room []byte // memory for it; nil where it is not needed
}

// takeRoom sets room.
func (p *part) takeRoom() error {
	l := p.load
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
	if l.stored == nil {
		return l.err
	}
	p.room = l.stored.Room(p.at, p.n)
	return nil
}

// arrived hands the tensor over to the cache if this was the last of it.
func (p *part) arrived() error {
	if p.room == nil {
		return nil
	}
	t, stored := p.load.tensor, p.load.stored
	all, err := stored.Arrived(p.at, p.room)
	p.room = nil // the plan goes on, and compressed bytes need not be there until its end
	if err == nil && all {
		p.load.stored = nil
		_, err = t.kept(cache.Elements, func(t Tensor) (cache.Buffer, error) { return t.elementsOf(stored.Whole()) })
	}
	if err != nil {
		return t.wrap(err)
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

// run is memory that is filled by one read.
type run struct {
	file    *file
	off, n  uint64
	buffers []padded
}

// padded is memory for what follows some padding.
type padded struct {
	gap uint64
	b   []byte
}

// load reads a portion of a file that is not mapped.
func (w *warming) load(ctx context.Context, p *portion) error {
	r := run{file: p.file, off: p.off}
	for i := range p.parts {
		part := &p.parts[i]
		if err := part.takeRoom(); err != nil {
			return part.load.tensor.wrap(err)
		}
		if part.room == nil {
			w.resident.Add(part.n)
			if err := w.fetch(ctx, &r); err != nil {
				return err
			}
			r = run{file: p.file, off: r.off + r.n + part.gap + part.n}
			continue
		}
		gap := part.gap
		if r.n == 0 { // padding is read only where it is between two tensors
			r.off += gap
			gap = 0
		}
		r.buffers = append(r.buffers, padded{gap, part.room})
		r.n += gap + part.n
	}
	if err := w.fetch(ctx, &r); err != nil {
		return err
	}
	for i := range p.parts {
		if err := p.parts[i].arrived(); err != nil {
			return err
		}
	}
	return nil
}

// fetch reads r when it is its time.
func (w *warming) fetch(ctx context.Context, r *run) error {
	if r.n == 0 {
		return nil
	}
	if err := w.rate.wait(ctx, r.n); err != nil {
		return err
	}
	return r.file.wrap(r.read(ctx))
}

// read fills the buffers, at once where the reader can.
func (r *run) read(ctx context.Context) error {
	if v, ok := r.file.reader.(vectorReader); ok {
		return v.ReadVector(ctx, r.vector(), int64(r.off))
	}
	off, f := r.off, r.file.during(ctx)
	for _, p := range r.buffers {
		if err := ctx.Err(); err != nil {
			return err
		}
		off += p.gap
		if err := f.readFull(p.b, off); err != nil {
			return err
		}
		off += uint64(len(p.b))
	}
	return nil
}

func (r *run) vector() (bufs [][]byte) {
	for _, p := range r.buffers {
		bufs = append(bufs, make([]byte, p.gap), p.b)
	}
	return bufs
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
