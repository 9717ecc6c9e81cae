package loader

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"

	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/mmapio"
)

// WriteTo writes the elements, as Bytes has them, to w: straight from the mapping, or
// through a buffer of fixed size if the file is not mapped or the tensor is compressed.
// Nothing is cached but a tensor that can only be unpacked as a whole (layout.Encoding.Packed).
// It fails for a logical tensor (ErrUnsupported), and if reading or w does. Errors of w come back as they are.
func (t Tensor) WriteTo(w io.Writer) (written int64, err error) {
	dst := newDestination(w)
	defer dst.finish(t, &written, &err)
	return 0, t.call(context.Background(), t.desc().Raw, func(ctx context.Context, env content.Env, s *state) error {
		if err := t.checkBytes(); err != nil {
			return err
		}
		return content.Write(ctx, s.envForParts(env, &dst.pins), s.elements, dst)
	})
}

// WriteDecrypted writes the bytes as the file has them to w, compressed ones compressed, but decrypted: see [Tensor.Decrypted]. It
// checks the lengths of compressed blocks, but not their content. It caches and fails as WriteTo does.
func (t Tensor) WriteDecrypted(w io.Writer) (written int64, err error) {
	dst := newDestination(w)
	defer dst.finish(t, &written, &err)
	return 0, t.call(context.Background(), t.desc().Stored, func(ctx context.Context, env content.Env, s *state) error {
		if err := t.checkBytes(); err != nil {
			return err
		}
		if blocks, ok := s.lz4Blocks(); ok {
			return blocks.WriteStored(ctx, dst)
		}
		return content.Write(ctx, s.envForParts(env, &dst.pins), t.file().stored(t.desc()), dst)
	})
}

// destination is a Writer, and no ReaderFrom, that remembers its error.
type destination struct {
	dst      io.Writer
	written  int64 // bytes written
	writeErr error
	pins     cache.Pins // of what is had as a whole, until all is written
}

var destinations = sync.Pool{New: func() any { return new(destination) }}

// newDestination returns a destination that passes all bytes on to w. It is used until finish.
func newDestination(w io.Writer) *destination {
	d := destinations.Get().(*destination)
	d.dst = w
	return d
}

// finish ends the writing of t, also after a panic. It sets *written to the number of bytes that d.dst took. If d.dst has failed, it sets
// *err to that error, unchanged. But if the tensor's mapped file has lost bytes, the system call of d.dst has failed with EFAULT:
// the kernel has touched them, and not this process. *err then is a *mmapio.FaultError.
func (d *destination) finish(t Tensor, written *int64, err *error) {
	t.model.cache.Unpin(&d.pins)
	if *written = d.written; d.writeErr != nil {
		*err = d.writeErr
	}
	if errors.Is(d.writeErr, syscall.EFAULT) && !t.isLogical() && t.file().stored(t.desc()).Cost().InPlace() {
		*err = t.wrap(&mmapio.FaultError{Offset: t.desc().Offset + uint64(d.written), Path: t.file().path, Err: mmapio.ErrFault})
	}
	*d = destination{}
	destinations.Put(d)
}

// Write writes b to d.dst, and remembers the error and how much was written. A short write without an error is io.ErrShortWrite.
func (d *destination) Write(b []byte) (n int, err error) {
	n, d.writeErr = d.dst.Write(b)
	if n < len(b) && d.writeErr == nil {
		d.writeErr = io.ErrShortWrite
	}
	d.written += int64(n)
	return n, d.writeErr
}
