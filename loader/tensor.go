package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"syscall"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/blocks"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/mmapio"
)

// Tensor is a handle on one tensor of a model. It is small, is passed by value, and stays
// valid: what describes the tensor can be asked after Close too, what reads it answers
// ErrClosed then.
type Tensor struct {
	desc  *layout.Tensor // its Name is a copy that nobody writes to
	file  *file
	lease *Lease // through which it was taken, or nil
}

// Name is the tensor's name in its model.
func (t Tensor) Name() string { return mmapio.String(t.desc.Name) }

// DType is the type of the stored elements.
func (t Tensor) DType() layout.DType { return t.desc.DType }

// Shape counts elements, outermost dimension first; it is empty for a scalar. It must
// not be modified.
func (t Tensor) Shape() []uint64 { return t.desc.Shape }

// Elements is the product of the shape.
func (t Tensor) Elements() uint64 { return t.desc.Elements() }

// Offset is where the stored bytes begin in the tensor's file.
func (t Tensor) Offset() uint64 { return t.desc.Offset }

// StoredBytes is the number of bytes in the file.
func (t Tensor) StoredBytes() uint64 { return t.desc.Stored }

// RawBytes is the number of bytes of the elements after decompression: the length of
// Bytes.
func (t Tensor) RawBytes() uint64 { return t.desc.Raw }

// Encoding is how the elements are stored.
func (t Tensor) Encoding() layout.Encoding { return t.desc.Encoding }

// File is the position of the tensor's file in Model.Files.
func (t Tensor) File() int { return int(t.desc.File) }

// ZeroCopy reports whether Bytes and views are the file itself rather than a copy on the
// heap: the elements are stored raw, and where their type and their file's promise want
// them to be. (On a big-endian machine views of elements wider than a byte are copies
// all the same.)
func (t Tensor) ZeroCopy() bool {
	return t.desc.Encoding == layout.Raw && t.file.mapping.Aliased() && t.file.index.Aligned(t.desc) &&
		t.file.align >= t.desc.DType.Align()
}

// Scale is how the tensor's integers become real numbers, where the file says so: see
// [layout.Quant]. Some formats keep it in their metadata, which this then parses.
func (t Tensor) Scale() (q layout.Quant, scaled bool, err error) {
	if t.scaledByMetadata() {
		if err := t.enter(); err != nil {
			return layout.Quant{}, false, err
		}
		defer t.leave()
	}
	return t.scale()
}

// scaledByMetadata reports whether only metadata can tell the tensor's scale.
func (t Tensor) scaledByMetadata() bool {
	_, ok := t.file.layout.(layout.Scaler)
	return ok && !t.desc.Scaled && t.DType().Kind() == layout.KindInt
}

// scale does what Scale does, for a caller that has entered.
func (t Tensor) scale() (q layout.Quant, scaled bool, err error) {
	if t.scaledByMetadata() {
		return t.file.scale(t.Name())
	}
	return t.desc.Quant, t.desc.Scaled, nil
}

// Bytes returns the elements as little-endian bytes, decompressed, in row-major order: a
// read-only slice of the mapping where ZeroCopy is true, else an aligned copy from the
// model's cache, not to be written to either; large compressed tensors are decompressed on
// all cores. The length is RawBytes. Lifetime: see the
// package's documentation. A file that has shrunk is an error where a copy is made, and
// a fault on touching the slice where not: see [mmapio.Guard].
func (t Tensor) Bytes() ([]byte, error) {
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.leave()
	return t.bytes()
}

// bytes is Bytes for a caller that has entered.
func (t Tensor) bytes() ([]byte, error) {
	if t.ZeroCopy() {
		b, err := t.file.mapping.Slice(t.desc.Offset, t.desc.Stored)
		if err != nil {
			return nil, t.wrap(err)
		}
		return b, nil
	}
	b, err := t.kept(cache.Elements, Tensor.copyElements)
	if err != nil {
		return nil, t.wrap(err)
	}
	return b.Bytes, nil
}

// kept returns the cache's entry for t, which fill makes otherwise, and pins it in t's lease.
func (t Tensor) kept(kind cache.Kind, fill func(Tensor) (cache.Buffer, error)) (cache.Buffer, error) {
	key, c := cache.Key{Tensor: t.desc, Kind: kind}, &t.file.model.cache
	var pins *cache.Pins
	if t.lease != nil {
		pins = &t.lease.pins
	}
	if b, ok := c.Peek(key, pins); ok {
		return b, nil
	}
	return c.Get(context.Background(), key, pins, func(context.Context) (cache.Buffer, error) { return fill(t) })
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
	case layout.Protobuf:
		b, err = t.copyPacked()
	default:
		b.Bytes, err = t.file.mapping.Copy(t.desc.Offset, t.desc.Stored)
	}
	return b, err
}

// copyPacked makes an aligned copy of the elements of a packed tensor. What a reader of the
// caller's claims to have is fetched first.
func (t Tensor) copyPacked() (b cache.Buffer, err error) {
	if t.file.reader != nil {
		stored, err := t.file.mapping.Copy(t.desc.Offset, t.desc.Stored)
		if err != nil {
			return cache.Buffer{}, err
		}
		return t.elementsOf(stored)
	}
	if _, err := t.present(); err != nil {
		return cache.Buffer{}, err
	}
	err = mmapio.Guard(func() error {
		b, err = t.unpack(t.file.mapping)
		return err
	})
	return b, err
}

// holdable says why memory for count elements of size bytes is not taken, where that is so.
func (t Tensor) holdable(count, size uint64) error { return cmp.Or(t.readable(), t.heap(count, size)) }

// readable says that the elements cannot be had, where that is so.
func (t Tensor) readable() error {
	switch t.desc.Encoding {
	case layout.Raw, layout.LZ4:
		return nil
	case layout.Protobuf:
		if _, ok := t.file.layout.(layout.Unpacker); ok {
			return nil
		}
	}
	return fmt.Errorf("%w: elements stored as %s", ErrUnsupported, t.desc.Encoding)
}

// cached are the elements where the model's cache holds them, or has to: a part of a packed
// tensor costs as much as the whole.
func (t Tensor) cached() (b []byte, ok bool, err error) {
	if t.desc.Encoding == layout.Protobuf {
		buf, err := t.kept(cache.Elements, Tensor.copyElements)
		return buf.Bytes, err == nil, err
	}
	buf, ok := t.file.model.cache.Peek(cache.Key{Tensor: t.desc, Kind: cache.Elements}, nil)
	return buf.Bytes, ok, nil
}

// hold returns t in a lease of its own: a packed tensor is then unpacked once for all parts that
// are read of it, and let go at release, whatever other lease t is from.
func (t Tensor) hold() (held Tensor, release func(), err error) {
	if t.desc.Encoding != layout.Protobuf || t.lease != nil && t.lease.brief {
		return t, func() {}, nil
	}
	if err := t.enter(); err != nil {
		return t, nil, err
	}
	l := &Lease{model: t.file.model, within: t.lease, brief: true}
	return Tensor{t.desc, t.file, l}, l.Release, nil
}

// readFull fills dst with the file's bytes at off.
func (f *file) readFull(dst []byte, off uint64) error {
	n, err := f.mapping.ReadAt(dst, int64(off))
	if n == len(dst) {
		return nil // ReaderAt may say EOF along with the last byte
	}
	return err
}

// WriteTo writes the elements, as Bytes has them, to w: straight from the mapping, or
// through a buffer of fixed size where the file is not mapped or the tensor is compressed.
// Nothing is cached, but a tensor that can only be unpacked as a whole (layout.Protobuf).
// Errors of w come back as they are.
func (t Tensor) WriteTo(w io.Writer) (written int64, err error) {
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.leave()
	if err := t.readable(); err != nil {
		return 0, t.wrap(err)
	}
	if t.inPlace() {
		written, err = t.writeStored(w)
	} else {
		written, err = t.writeElements(w)
	}
	return written, cmp.Or(err, t.confirm(t.desc.Raw))
}

// WriteStored writes the bytes as the file has them, compressed ones compressed, to w;
// otherwise it is like WriteTo. Of compressed blocks the lengths are checked, but not what is
// in them.
func (t Tensor) WriteStored(w io.Writer) (written int64, err error) {
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.leave()
	switch {
	case t.desc.Encoding != layout.LZ4:
	case !t.file.mapping.Aliased():
		dst := destination{w: w}
		err := dst.take(t, t.blocks().WriteStored)
		return dst.n, err
	default:
		if err := mmapio.Guard(t.blocks().Walk); err != nil {
			return 0, t.wrap(err)
		}
	}
	written, err = t.writeStored(w)
	return written, cmp.Or(err, t.confirm(t.desc.Stored))
}

func (t Tensor) writeStored(w io.Writer) (written int64, err error) {
	var writerErr error
	if t.file.mapping.Aliased() {
		written, writerErr, err = t.writeMapped(w)
	} else {
		written, writerErr, err = t.writeCopy(w)
	}
	if err != nil {
		return written, t.wrap(err)
	}
	return written, writerErr
}

// writeElements is WriteTo for elements that are not in place.
func (t Tensor) writeElements(w io.Writer) (written int64, err error) {
	t, release, err := t.hold()
	if err != nil {
		return 0, err
	}
	defer release()
	b, ok, err := t.cached()
	switch {
	case err != nil:
		return 0, t.wrap(err)
	case ok:
		n, err := w.Write(b)
		return int64(n), err
	case t.desc.Encoding == layout.Raw:
		return t.writeStored(w)
	}
	dst := destination{w: w}
	err = dst.take(t, t.blocks().Write)
	return dst.n, err
}

// writeMapped tells errors of w from those of the mapping.
func (t Tensor) writeMapped(w io.Writer) (written int64, writerErr, err error) {
	err = mmapio.Guard(func() error {
		b, err := t.file.mapping.Slice(t.desc.Offset, t.desc.Stored)
		if err != nil {
			return err
		}
		n, err := w.Write(b)
		written = int64(n)
		if n < len(b) && err == nil {
			err = io.ErrShortWrite
		}
		if errors.Is(err, syscall.EFAULT) {
			// The kernel, not this process, has met the hole in the file.
			return &mmapio.FaultError{Offset: t.desc.Offset + uint64(n), Path: t.file.path, Err: mmapio.ErrFault}
		}
		writerErr = err
		return nil
	})
	return written, writerErr, err
}

// writeCopy is writeMapped for a file that is not mapped.
func (t Tensor) writeCopy(w io.Writer) (written int64, writerErr, err error) {
	dst := destination{w: w}
	off, n := t.desc.Offset, t.desc.Stored
	if t.file.reader == nil && n > parallel.PieceBytes {
		err = parallel.WriteInOrder(&dst, parallel.Pieces(n), func(jobs iter.Seq[*parallel.Job]) {
			for job := range jobs {
				at := job.I * parallel.PieceBytes
				b := job.Into[:min(parallel.PieceBytes, n-at)]
				job.Done(len(b), t.file.readFull(b, off+at))
			}
		})
	} else { // few requests to a server, which are worth several connections
		section := io.NewSectionReader(t.file.mapping, int64(off), int64(n))
		_, err = io.CopyBuffer(&dst, section, make([]byte, max(1, min(blocks.PieceBytes, n))))
	}
	if dst.err != nil {
		return dst.n, dst.err, nil
	}
	return dst.n, nil, err
}

// destination is a Writer, and no ReaderFrom, that remembers its error.
type destination struct {
	w   io.Writer
	n   int64 // bytes written
	err error
}

// take lets write write to d, and tells its errors from those of w.
func (d *destination) take(t Tensor, write func(io.Writer) error) error {
	err := mmapio.Guard(func() error { return write(d) })
	if err != nil && d.err == nil {
		return t.wrap(err)
	}
	return err
}

func (d *destination) Write(b []byte) (n int, err error) {
	n, d.err = d.w.Write(b)
	if n < len(b) && d.err == nil {
		d.err = io.ErrShortWrite
	}
	d.n += int64(n)
	return n, d.err
}

// blocks returns the reader of a compressed tensor.
func (t Tensor) blocks() blocks.Tensor {
	return blocks.Tensor{Table: t.file.model.blocks.Of(t.file.index.Format, t.desc), File: t.file.mapping}
}

// enter keeps the mapping in place for the length of a call.
func (t Tensor) enter() error {
	if t.lease != nil {
		if !t.lease.gate.enter() {
			return t.wrap(ErrClosed)
		}
	} else if !t.file.model.gate.enter() {
		return t.wrap(ErrClosed)
	}
	return nil
}

func (t Tensor) leave() {
	if t.lease != nil {
		t.lease.leave()
	} else {
		t.file.model.leave()
	}
}
