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
			dst := destination{w: w}
			err := dst.take(t, t.blocks().WriteStored)
			return dst.n, err
		}
		if err := mmapio.Guard(t.blocks().Walk); err != nil {
			return 0, t.wrap(err)
		}
	}
	written, err = t.writeStored(w)
	return written, cmp.Or(err, t.confirm(t.desc.Stored))
}

func (t Tensor) writeStored(w io.Writer) (written int64, err error) {
	var writerErr error
	if t.file.access() == inPlace {
		written, writerErr, err = t.writeMapped(w)
	} else {
		written, writerErr, err = t.writeCopy(w)
	}
	if err != nil {
		return written, t.wrap(err)
	}
	return written, writerErr
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
	dst := destination{w: w}
	err = dst.take(t, t.blocks().Write)
	return dst.n, err
}

// writeMapped writes a file in place, and tells errors of w from those of the mapping.
func (t Tensor) writeMapped(w io.Writer) (written int64, writerErr, err error) {
	err = mmapio.Guard(func() error {
		b, err := t.file.content.Slice(t.desc.Offset, t.desc.Stored)
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

// writeCopy does what writeMapped does, for a file that is not in place.
func (t Tensor) writeCopy(w io.Writer) (written int64, writerErr, err error) {
	dst := destination{w: w}
	off, n := t.desc.Offset, t.desc.Stored
	if t.file.access() == bySystem && n > parallel.PieceBytes {
		err = parallel.WriteInOrder(&dst, parallel.Pieces(n), func(jobs iter.Seq[*parallel.Job]) {
			for job := range jobs {
				at := job.I * parallel.PieceBytes
				b := job.Into[:min(parallel.PieceBytes, n-at)]
				job.Done(len(b), t.file.readContent(b, off+at))
			}
		})
	} else { // few requests to a server, which are worth several connections
		section := io.NewSectionReader(t.file.content, int64(off), int64(n))
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
