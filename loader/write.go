package loader

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"

	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/mmapio"
)

// WriteTo writes the elements, as Bytes has them, to w: straight from the mapping, or
// through a buffer of fixed size if the file is not mapped or the tensor is compressed.
// Nothing is cached but a tensor that can only be unpacked as a whole (layout.Encoding.Packed).
// Errors of w come back as they are.
func (t Tensor) WriteTo(w io.Writer) (written int64, err error) {
	return write(context.Background(), t, w, t.desc().Raw, func(ctx context.Context, env content.Env, s *state, dst io.Writer) error {
		if err := s.bytesErr(); err != nil {
			return err
		}
		return content.Write(ctx, env, s.elements, dst)
	})
}

// WriteDecrypted writes the bytes as the file has them to w, compressed ones compressed, but decrypted. Decrypted tells what
// they are. The lengths of compressed blocks are checked, but not their content. Otherwise it is like WriteTo.
func (t Tensor) WriteDecrypted(w io.Writer) (written int64, err error) {
	return write(context.Background(), t, w, t.desc().Stored, func(ctx context.Context, env content.Env, s *state, dst io.Writer) error {
		if err := s.bytesErr(); err != nil {
			return err
		}
		if blocks, ok := s.lz4(); ok {
			return blocks.WriteStored(ctx, dst)
		}
		return content.Write(ctx, env, s.stored, dst)
	})
}

// write calls f with a writer of w to write some of t. bytes is about how many: many make call check the files
// afterwards. written is how many w took. An error of w comes back as it is. If w's system call met a hole in the
// mapped file, the error is a *mmapio.FaultError.
func write(ctx context.Context, t Tensor, w io.Writer, bytes uint64, f func(ctx context.Context, env content.Env, s *state, dst io.Writer) error) (written int64, err error) {
	dst := destinations.Get().(*destination)
	dst.w = w
	defer func() {
		*dst = destination{}
		destinations.Put(dst)
	}()
	err = t.call(ctx, bytes, func(ctx context.Context, env content.Env, s *state) error {
		err := s.withPins(t.model, env, func(env content.Env) error { return f(ctx, env, s, dst) })
		if errors.Is(dst.err, syscall.EFAULT) && s.stored != nil && s.stored.Cost().Piece == 0 {
			// The kernel, not this process, has met the hole in the file.
			dst.err = nil
			err = &mmapio.FaultError{Offset: t.desc().Offset + uint64(dst.n), Path: t.file().path, Err: mmapio.ErrFault}
		}
		return err
	})
	if dst.err != nil {
		err = dst.err // as it is
	}
	return dst.n, err
}

var destinations = sync.Pool{New: func() any { return new(destination) }}

// destination is a Writer, and no ReaderFrom, that remembers its error.
type destination struct {
	w   io.Writer
	n   int64 // bytes written
	err error
}

// Write writes b and counts what was taken. It remembers the error. A short write without one is io.ErrShortWrite.
func (d *destination) Write(b []byte) (n int, err error) {
	n, d.err = d.w.Write(b)
	if n < len(b) && d.err == nil {
		d.err = io.ErrShortWrite
	}
	d.n += int64(n)
	return n, d.err
}
