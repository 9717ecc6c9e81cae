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
	return write(context.Background(), t, w, t.desc().Raw, func(ctx context.Context, env content.Env, s *state, dst io.Writer) error {
		if err := s.bytesErr(); err != nil {
			return err
		}
		return content.Write(ctx, env, s.elements, dst)
	})
}

// WriteDecrypted writes the bytes as the file has them to w, compressed ones compressed, but decrypted: see [Tensor.Decrypted]. It
// checks the lengths of compressed blocks, but not their content. It caches and fails as WriteTo does.
func (t Tensor) WriteDecrypted(w io.Writer) (written int64, err error) {
	return write(context.Background(), t, w, t.desc().Stored, func(ctx context.Context, env content.Env, s *state, dst io.Writer) error {
		if err := s.bytesErr(); err != nil {
			return err
		}
		if blocks, ok := s.lz4Blocks(); ok {
			return blocks.WriteStored(ctx, dst)
		}
		return content.Write(ctx, env, s.stored, dst)
	})
}

// write calls f with a writer that passes all bytes on to w. written is the number of bytes that w took. n is about how many bytes f
// reads, for Tensor.call, which write runs f in. write fails if f does, or if the tensor's model or lease is closed. If w has failed,
// write returns the error of w, unchanged. But if w has failed since the mapped file has lost bytes, write returns a
// *mmapio.FaultError.
func write(ctx context.Context, t Tensor, w io.Writer, n uint64, f func(ctx context.Context, env content.Env, s *state, dst io.Writer) error) (written int64, err error) {
	dst := destinations.Get().(*destination)
	dst.dst = w
	defer func() {
		*dst = destination{}
		destinations.Put(dst)
	}()
	err = t.call(ctx, n, func(ctx context.Context, env content.Env, s *state) error {
		defer t.model.cache.Unpin(&dst.pins)
		err := f(ctx, s.envForParts(env, &dst.pins), s, dst)
		if dst.metHole(s) {
			dst.writeErr = nil
			err = &mmapio.FaultError{Offset: t.desc().Offset + uint64(dst.written), Path: t.file().path, Err: mmapio.ErrFault}
		}
		return err
	})
	if dst.writeErr != nil {
		err = dst.writeErr
	}
	return dst.written, err
}

var destinations = sync.Pool{New: func() any { return new(destination) }}

// destination is a Writer, and no ReaderFrom, that remembers its error.
type destination struct {
	dst      io.Writer
	written  int64 // bytes written
	writeErr error
	pins     cache.Pins // of what is had as a whole, until all is written
}

// metHole reports whether d.dst has failed since the tensor's mapped file has lost bytes. Its system call then fails with EFAULT: the
// kernel, and not this process, has touched the lost bytes. s is the state of the tensor.
func (d *destination) metHole(s *state) bool {
	return errors.Is(d.writeErr, syscall.EFAULT) && s.stored != nil && s.stored.Cost().InPlace()
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
