package loader

import (
	"errors"
	"fmt"
	"io"
	"math"
	"syscall"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Tensor is a handle on one tensor of a model. It is small, is passed by value, and stays
// valid: what describes the tensor can be asked after Close too, what reads it answers
// ErrClosed then.
type Tensor struct {
	ref   *tensor
	lease *Lease // through which it was taken, or nil
}

// tensor is what the model keeps of a tensor.
type tensor struct {
	*layout.Tensor // its Name is a copy that nobody writes to
	model          *Model
	file           *file
}

func (t *tensor) name() string { return mmapio.String(t.Tensor.Name) }

// Name is the tensor's name in its model.
func (t Tensor) Name() string { return t.ref.name() }

// DType is the type of the stored elements.
func (t Tensor) DType() layout.DType { return t.ref.DType }

// Shape counts elements, outermost dimension first; it is empty for a scalar. It must
// not be modified.
func (t Tensor) Shape() []uint64 { return t.ref.Shape }

// Elements is the product of the shape.
func (t Tensor) Elements() uint64 { return t.ref.Elements() }

// Offset is where the stored bytes begin in the tensor's file.
func (t Tensor) Offset() uint64 { return t.ref.Offset }

// StoredBytes is the number of bytes in the file.
func (t Tensor) StoredBytes() uint64 { return t.ref.Stored }

// RawBytes is the number of bytes of the elements after decompression: the length of
// Bytes.
func (t Tensor) RawBytes() uint64 { return t.ref.Raw }

// Encoding is how the elements are stored.
func (t Tensor) Encoding() layout.Encoding { return t.ref.Encoding }

// File is the position of the tensor's file in Model.Files.
func (t Tensor) File() int {
	for i := range t.ref.model.files {
		if &t.ref.model.files[i] == t.ref.file {
			return i
		}
	}
	return -1 // never: every tensor comes from one of the files
}

// ZeroCopy reports whether Bytes and views are the file itself rather than a copy on the
// heap: the elements are stored raw, and where their type and their file's promise want
// them to be. (On a big-endian machine views of elements wider than a byte are copies
// all the same.)
func (t Tensor) ZeroCopy() bool { return t.ref.zeroCopy() }

func (t *tensor) zeroCopy() bool {
	return t.Encoding == layout.Raw && t.file.mapping.Aliased() && t.file.index.Aligned(t.Tensor) &&
		t.file.align >= t.DType.Align()
}

// Scale is how the tensor's integers become real numbers, where the file says so: see
// [layout.Quant]. Some formats keep it in their metadata, which this then parses.
func (t Tensor) Scale() (q layout.Quant, scaled bool, err error) {
	if t.ref.Scaled {
		return t.ref.Quant, true, nil
	}
	if _, ok := t.ref.file.layout.(layout.Scaler); !ok || t.DType().Kind() != layout.KindInt {
		return layout.Quant{}, false, nil
	}
	if err := t.enter(); err != nil {
		return layout.Quant{}, false, err
	}
	defer t.leave()
	if err := t.ref.model.parseMetadata(); err != nil {
		return layout.Quant{}, false, err
	}
	q, scaled = t.ref.model.scales[t.ref.name()]
	return q, scaled, nil
}

// Bytes returns the elements as little-endian bytes, decompressed, in row-major order: a
// read-only slice of the mapping where ZeroCopy is true, else an aligned copy from the
// model's cache, not to be written to either. The length is RawBytes. Lifetime: see the
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
	r := t.ref
	if r.zeroCopy() {
		b, err := r.file.mapping.Slice(r.Offset, r.Stored)
		if err != nil {
			return nil, r.wrap(err)
		}
		return b, nil
	}
	b, err := r.model.cache.get(cacheKey{r, kindElements}, t.lease, r.copyElements)
	if err != nil {
		return nil, r.wrap(err)
	}
	return b.bytes, nil
}

// copyElements makes an aligned copy of the elements.
func (t *tensor) copyElements() (buffer, error) {
	if t.Encoding != layout.Raw {
		return buffer{}, fmt.Errorf("%w: elements stored as %s", ErrUnsupported, t.Encoding)
	}
	if t.Raw > math.MaxInt {
		return buffer{}, fmt.Errorf("%d bytes: %w", t.Raw, mmapio.ErrTooLarge)
	}
	b := mmapio.AlignedBytes(int(t.Raw))
	return buffer{bytes: b}, t.file.readFull(b, t.Offset)
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
// through a buffer of fixed size where the file is not mapped. Nothing is cached.
func (t Tensor) WriteTo(w io.Writer) (written int64, err error) {
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.leave()
	r := t.ref
	if r.Encoding != layout.Raw {
		return 0, r.wrap(fmt.Errorf("%w: elements stored as %s", ErrUnsupported, r.Encoding))
	}
	if r.file.mapping.Aliased() {
		err = mmapio.Guard(func() error {
			b, err := r.file.mapping.Slice(r.Offset, r.Stored)
			if err != nil {
				return err
			}
			n, err := w.Write(b)
			written = int64(n)
			if errors.Is(err, syscall.EFAULT) {
				// The kernel, not this process, has met the hole in the file.
				err = fmt.Errorf("%w: %w", mmapio.ErrFault, err)
			}
			return err
		})
	} else {
		section := io.NewSectionReader(r.file.mapping, int64(r.Offset), int64(r.Stored))
		written, err = io.CopyBuffer(struct{ io.Writer }{w}, section, make([]byte, max(1, min(1<<20, r.Stored))))
	}
	if err != nil {
		return written, r.wrap(err)
	}
	return written, nil
}

// enter keeps the mapping in place for the length of a call.
func (t Tensor) enter() error {
	if t.lease != nil {
		if !t.lease.gate.enter() {
			return t.ref.wrap(ErrClosed)
		}
	} else if !t.ref.model.gate.enter() {
		return t.ref.wrap(ErrClosed)
	}
	return nil
}

func (t Tensor) leave() {
	if t.lease != nil {
		t.lease.leave()
	} else {
		t.ref.model.leave()
	}
}
