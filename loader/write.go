package loader

import (
	"cmp"
	"errors"
	"io"
	"iter"
	"syscall"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/blocks"
	"github.com/tensormap/tensormap/mmapio"
)

// WriteTo writes the elements, as Bytes has them, to w: straight from the mapping, or
// through a buffer of fixed size if the file is not mapped or the tensor is compressed.
// Nothing is cached but a tensor that can only be unpacked as a whole (layout.Encoding.Packed).
// Errors of w come back as they are.
func (t Tensor) WriteTo(w io.Writer) (written int64, err error) {
	if err := t.enterStored(); err != nil {
		return 0, err
	}
	defer t.leave()
	if t.inPlace() {
		written, err = t.writeStored(w)
	} else {
		written, err = t.writeElements(w)
	}
	return written, cmp.Or(err, t.confirm(t.desc.Raw))
}

// WriteStored writes the bytes as the file has them, compressed ones compressed, to w. It decrypts what is
// encrypted: Unsealed tells how that is stored. Otherwise it is like WriteTo. It checks the lengths of compressed blocks, but not their content.
func (t Tensor) WriteStored(w io.Writer) (written int64, err error) {
	if err := t.enterStored(); err != nil {
		return 0, err
	}
	defer t.leave()
	if t.desc.Encoding == layout.LZ4 {
		if t.file.access() != inPlace {
			return t.write(w, func(dst *destination) error { return t.blocks().WriteStored(dst) })
		}
		if err := mmapio.Guard(t.blocks().Walk); err != nil {
			return 0, t.wrap(err)
		}
	}
	written, err = t.writeStored(w)
	return written, cmp.Or(err, t.confirm(t.desc.Stored))
}

func (t Tensor) writeStored(w io.Writer) (written int64, err error) {
	if t.file.access() == inPlace {
		return t.writeMapped(w)
	}
	return t.write(w, t.writeCopy)
}

// writeElements writes elements that are not in place.
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
	return t.write(w, func(dst *destination) error { return t.blocks().Write(dst) })
}

// writeMapped writes the stored bytes of a file in place. It allocates nothing.
func (t Tensor) writeMapped(w io.Writer) (written int64, err error) {
	dst := destination{w: w}
	err = mmapio.Guard(func() error {
		b, err := t.file.content.SliceContext(t.ctx(), t.desc.Offset, t.desc.Stored)
		if err != nil {
			return err
		}
		n, err := dst.Write(b)
		if errors.Is(err, syscall.EFAULT) {
			// The kernel, not this process, has met the hole in the file.
			dst.err = nil
			return &mmapio.FaultError{Offset: t.desc.Offset + uint64(n), Path: t.file.path, Err: mmapio.ErrFault}
		}
		return err
	})
	return dst.ended(t, err)
}

// writeCopy writes the stored bytes of a file that is not in place.
func (t Tensor) writeCopy(dst *destination) error {
	off, n := t.desc.Offset, t.desc.Stored
	if t.file.access() != bySystem || n <= parallel.PieceBytes { // few requests to a server, which are worth several connections
		buf := make([]byte, min(blocks.PieceBytes, n))
		for end := off + n; off < end; {
			b := buf[:min(uint64(len(buf)), end-off)]
			if err := t.file.readContent(t.ctx(), b, off); err != nil {
				return err
			}
			if _, err := dst.Write(b); err != nil {
				return err
			}
			off += uint64(len(b))
		}
		return nil
	}
	return parallel.WriteInOrder(dst, parallel.Pieces(n), func(jobs iter.Seq[*parallel.Job]) {
		for job := range jobs {
			at := job.I * parallel.PieceBytes
			b := job.Into[:min(parallel.PieceBytes, n-at)]
			job.Done(len(b), t.file.readContent(t.ctx(), b, off+at))
		}
	})
}

// write lets from write to w.
func (t Tensor) write(w io.Writer, from func(dst *destination) error) (written int64, err error) {
	dst := destination{w: w}
	return dst.ended(t, mmapio.Guard(func() error { return from(&dst) }))
}

// destination is a Writer, and no ReaderFrom, that remembers its error.
type destination struct {
	w   io.Writer
	n   int64 // bytes written
	err error
}

// ended returns what writing t has come to. Only errors that are not of w get the names of tensor and file.
func (d *destination) ended(t Tensor, err error) (written int64, _ error) {
	if d.err == nil {
		err = t.wrap(err)
	}
	return d.n, err
}

func (d *destination) Write(b []byte) (n int, err error) {
	n, d.err = d.w.Write(b)
	if n < len(b) && d.err == nil {
		d.err = io.ErrShortWrite
	}
	d.n += int64(n)
	return n, d.err
}
