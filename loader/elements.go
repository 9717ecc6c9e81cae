package loader

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/blocks"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/mmapio"
)

// Bytes returns the elements as little-endian bytes, decompressed, in row-major order. The length
// is RawBytes. The slice is read-only: the mapping itself if ZeroCopy is true, else an aligned copy
// from the model's cache. Large compressed tensors are decompressed on all cores. Lifetime: see the
// package's documentation. A file that has shrunk is an error of the copy. Without a copy, touching
// the slice faults: see [mmapio.Guard].
func (t Tensor) Bytes() ([]byte, error) {
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.leave()
	return t.bytes()
}

// bytes does what Bytes does, for a caller that has entered.
func (t Tensor) bytes() ([]byte, error) {
	if err := t.stored(); err != nil {
		return nil, t.wrap(err)
	}
	if t.ZeroCopy() {
		b, err := t.file.content.SliceContext(t.ctx(), t.desc.Offset, t.desc.Stored)
		return b, t.wrap(err)
	}
	b, err := t.kept(t.ctx(), cache.Elements, Tensor.copyElements)
	return b.Bytes, t.wrap(err)
}

// kept returns the cache's entry for t, which fill makes otherwise, and pins it in t's lease. It
// waits until ctx ends.
func (t Tensor) kept(ctx context.Context, kind cache.Kind, fill func(Tensor) (cache.Buffer, error)) (cache.Buffer, error) {
	return t.keptBy(ctx, t.pins(), kind, fill)
}

// keptBy does what kept does, and pins the entry in pins.
func (t Tensor) keptBy(ctx context.Context, pins *cache.Pins, kind cache.Kind, fill func(Tensor) (cache.Buffer, error)) (cache.Buffer, error) {
	key, c := cache.Key{Tensor: t.desc, Kind: kind}, &t.file.model.cache
	if b, ok := c.Peek(key, pins); ok {
		return b, nil
	}
	return c.Get(ctx, key, pins, func(ctx context.Context) (cache.Buffer, error) {
		m := t.file.model
		l := m.brief(ctx)
		defer l.Release()
		begun := time.Now()
		b, err := fill(Tensor{t.desc, t.file, l, t.weight})
		if expanded := m.opts.Hooks.Expanded; expanded != nil {
			expanded(t.Name(), b.Size(), time.Since(begun), err)
		}
		return b, err
	})
}

// pins returns the pins of t's lease, or nil without one.
func (t Tensor) pins() *cache.Pins {
	if t.lease == nil {
		return nil
	}
	return &t.lease.pins
}

// warmPins returns the pins of what t's lease has only warmed, or nil without a lease.
func (t Tensor) warmPins() *cache.Pins {
	if t.lease == nil {
		return nil
	}
	t.lease.warm.Store(true)
	return &t.lease.warmed
}

// unpinWarmed lets go of the elements that t's lease has warmed, now that it holds the values.
func (t Tensor) unpinWarmed() {
	l := t.lease
	if l == nil || !l.warm.Load() {
		return
	}
	c := &l.model.cache
	c.Forget(cache.Key{Tensor: t.desc, Kind: cache.Elements}, &l.warmed)
	if t.logical() {
		for _, p := range t.inScheme().Parts {
			c.Forget(cache.Key{Tensor: t.part(p.Tensor).desc, Kind: cache.Elements}, &l.warmed)
		}
	}
}

// copyElements makes an aligned copy of the elements.
func (t Tensor) copyElements() (b cache.Buffer, err error) {
	if err := t.holdable(t.desc.Raw, 1); err != nil {
		return cache.Buffer{}, err
	}
	switch t.desc.Encoding {
	case layout.LZ4:
		b.Bytes, err = mmapio.GatherInto(t.desc.Raw, t.present, func(to mmapio.Destination[byte]) error {
			return mmapio.Guard(func() error { return t.blocks().Read(to, 0, t.desc.Raw) })
		})
	case layout.Protobuf, layout.Swapped:
		b, err = t.copyPacked()
	default:
		b.Bytes, err = t.file.content.Copy(t.ctx(), t.desc.Offset, t.desc.Stored)
	}
	return b, err
}

// copyPacked makes an aligned copy of the elements of a packed tensor. Stored bytes that a reader
// of the caller's only claims to have are fetched first.
func (t Tensor) copyPacked() (b cache.Buffer, err error) {
	if t.file.access() == fromAfar {
		stored, err := t.file.content.Copy(t.ctx(), t.desc.Offset, t.desc.Stored)
		if err != nil {
			return cache.Buffer{}, err
		}
		return t.elementsOf(stored)
	}
	if _, err := t.present(); err != nil {
		return cache.Buffer{}, err
	}
	err = mmapio.Guard(func() error {
		b, err = t.unpack(bound{t.file.content, t.ctx()})
		return err
	})
	return b, err
}

// holdable returns why memory for count elements of size bytes may not be taken, or nil.
func (t Tensor) holdable(count, size uint64) error { return cmp.Or(t.readable(), t.heap(count, size)) }

// enterStored enters, for a call that hands out what the file stores. It refuses a tensor without bytes of its
// own, and one that cannot be read.
func (t Tensor) enterStored() error {
	if err := t.enter(); err != nil {
		return err
	}
	if err := cmp.Or(t.stored(), t.readable()); err != nil {
		t.leave()
		return t.wrap(err)
	}
	return nil
}

// readable returns why the elements cannot be read, or nil.
func (t Tensor) readable() error {
	if t.logical() {
		for _, p := range t.inScheme().Parts {
			part := t.part(p.Tensor)
			if err := part.readable(); err != nil {
				return part.wrap(err)
			}
		}
		return nil
	}
	switch t.desc.Encoding {
	case layout.Raw, layout.LZ4:
		return nil
	case layout.Encrypted, layout.EncryptedLZ4:
		return fmt.Errorf("%w: the tensor is encrypted, and no key was given", ErrKey)
	case layout.Protobuf, layout.Swapped:
		if _, ok := t.file.layout.(layout.Unpacker); ok {
			return nil
		}
	}
	return fmt.Errorf("%w: elements stored as %s", ErrUnsupported, t.desc.Encoding)
}

func (t Tensor) partsIntact() error {
	for _, p := range t.inScheme().Parts {
		if part := t.part(p.Tensor); part.desc.File != t.desc.File {
			if err := part.intact(); err != nil {
				return err
			}
		}
	}
	return nil
}

// cached returns the elements if the model's cache has them. It puts packed tensors there, since a
// part of one costs as much as the whole.
func (t Tensor) cached() (b []byte, ok bool, err error) {
	if t.desc.Encoding.Packed() {
		buf, err := t.kept(t.ctx(), cache.Elements, Tensor.copyElements)
		return buf.Bytes, err == nil, err
	}
	buf, ok := t.file.model.cache.Peek(cache.Key{Tensor: t.desc, Kind: cache.Elements}, nil)
	return buf.Bytes, ok, nil
}

// hold returns t in a brief lease of its own, so that a packed tensor is unpacked once for all of its
// parts. release lets go of it, whatever other lease t came from.
func (t Tensor) hold() (held Tensor, release func(), err error) {
	if !t.desc.Encoding.Packed() && !t.logical() || t.lease != nil && t.lease.brief {
		return t, func() {}, nil
	}
	if err := t.enter(); err != nil {
		return t, nil, err
	}
	l := &Lease{model: t.file.model, ctx: t.ctx(), within: t.lease, brief: true}
	return Tensor{t.desc, t.file, l, t.weight}, l.Release, nil
}

// readAt fills dst with the bytes of the elements from off on, however they are stored.
func (t Tensor) readAt(dst []byte, off uint64) error {
	if t.inPlace() {
		return t.file.readContent(t.ctx(), dst, t.desc.Offset+off)
	}
	if err := t.readable(); err != nil {
		return err
	}
	b, ok, err := t.cached()
	switch {
	case err != nil:
		return err
	case ok:
		copy(dst, b[off:])
		return nil
	case t.desc.Encoding == layout.Raw:
		return t.file.readContent(t.ctx(), dst, t.desc.Offset+off)
	}
	return mmapio.Guard(func() error { return t.blocks().Read(mmapio.Into(dst, off), off, uint64(len(dst))) })
}

// heap returns why count elements of size bytes may not be put on the heap at once, or nil.
func (t Tensor) heap(count, size uint64) error {
	limit := uint64(min(max(0, t.file.model.opts.TensorBytes), math.MaxInt))
	if count > limit/size {
		return fmt.Errorf("%w: %d × %d bytes, more than %d; Dequantize, DequantizeRows, Values and WriteTo need no such memory",
			ErrTooLarge, count, size, limit)
	}
	return nil
}

// blocks returns the reader of a compressed tensor.
func (t Tensor) blocks() blocks.Tensor {
	return blocks.Tensor{Table: t.file.model.blocks.Of(t.file.index.Format, t.desc), File: t.file.content, Ctx: t.ctx()}
}

// elementsOf makes the elements of the stored bytes.
func (t Tensor) elementsOf(stored []byte) (b cache.Buffer, err error) {
	switch t.desc.Encoding {
	case layout.LZ4:
		b.Bytes, err = t.blocks().Decode(stored)
		return b, err
	case layout.Protobuf, layout.Swapped:
		return t.unpack(&fetched{bound{t.file.content, t.ctx()}, t.desc.Offset, stored})
	}
	return cache.Buffer{Bytes: stored}, nil
}

// unpack makes the elements of a packed tensor, whose stored bytes are known to be in the file.
// Decoders allow no more elements than these can hold.
func (t Tensor) unpack(in layout.Input) (b cache.Buffer, err error) {
	b.Bytes = mmapio.AlignedBytes(int(t.desc.Raw))
	return b, t.file.layout.(layout.Unpacker).Unpack(in, t.desc, b.Bytes)
}

// present reads the last stored byte. It reports whether memory for all elements may then be taken.
// For a compressed tensor all of its blocks must exist. Only a file in place is asked for them,
// since elsewhere every block would take a read.
func (t Tensor) present() (sure bool, err error) {
	if t.logical() {
		return t.codes().present()
	}
	compressed := t.desc.Encoding == layout.LZ4
	if compressed && t.file.access() != inPlace {
		return false, nil
	}
	if t.file.content.Fills() { // the size of its file is a promise
		err := t.file.content.Verify(t.ctx(), t.desc.Offset, t.desc.Stored)
		return err == nil && t.file.content.Fills(), err
	}
	sure, err = t.file.content.Probe(t.ctx(), t.desc.Offset, t.desc.Stored)
	if err == nil && compressed {
		err = mmapio.Guard(t.blocks().Walk)
	}
	return sure, err
}

// worthAsking is the number of bytes read at once that makes asking the system about the file cost
// next to nothing.
const worthAsking = 16 << 20

// confirm checks that the file is intact after n bytes of the tensor have been read, if these
// are many.
func (t Tensor) confirm(n uint64) error {
	if n < worthAsking {
		return nil
	}
	return t.intact()
}

// intact checks that no file of the tensor has become shorter.
func (t Tensor) intact() error {
	if err := t.file.intact(); err != nil {
		return t.wrap(err)
	}
	if t.logical() {
		return t.partsIntact()
	}
	return nil
}
