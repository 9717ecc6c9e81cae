package httprange

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tensormap/tensormap/internal/parallel"
)

// ReadAt implements io.ReaderAt.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	return r.ReadAtContext(r.ctx, p, off)
}

// ReadAtContext does what ReadAt does, until ctx ends. The error is io.EOF if p reaches past the end of the file.
func (r *Reader) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, r.wrap(off, errors.New("negative offset"))
	}
	want := p[:min(int64(len(p)), max(r.size-off, 0))]
	if err := r.ReadVector(ctx, [][]byte{want}, min(off, r.size)); err != nil {
		return 0, err
	}
	if len(want) < len(p) {
		return len(want), io.EOF
	}
	return len(want), nil
}

// ReadVector fills one buffer after another with the consecutive bytes from off on. All of them
// must be in the file. One request serves several buffers; several requests at once serve a long range.
// After an error the content of the buffers is undefined.
func (r *Reader) ReadVector(ctx context.Context, bufs [][]byte, off int64) error {
	rest := newVector(bufs)
	if off < 0 || off > r.size || rest.n > r.size-off {
		return r.wrap(off, fmt.Errorf("%d bytes leave the file of %d: %w", rest.n, r.size, io.ErrUnexpectedEOF))
	}
	ctx, cancel := r.untilClose(ctx)
	defer cancel(nil)
	start := off
	off += rest.take(r.prefix[min(off, int64(len(r.prefix))):])
	requests := parallel.Group{Stop: func() { cancel(nil) }}
	fetch := func(piece *vector, off int64) func() error {
		return func() error {
			err := r.fetch(ctx, piece, off)
			if err != nil {
				cancel(err) // the read has failed: the other requests are of no use
			}
			return nil
		}
	}
	for n := r.pieceBytes(rest.n); rest.n > n; off += n {
		requests.Go(fetch(rest.split(n), off))
	}
	if rest.n > 0 {
		requests.Here(fetch(rest, off))
	}
	requests.Wait()       // panics if a client's transport has panicked
	if ctx.Err() == nil { // no request has failed
		return nil
	}
	err, known := context.Cause(ctx), new(Error)
	if errors.As(err, &known) {
		return err
	}
	return r.wrap(start, err)
}

// pieceBytes returns the maximum of bytes that one request asks for in a read of n bytes. It is larger in a longer
// read: fewer requests wait for the server.
func (r *Reader) pieceBytes(n int64) int64 {
	if r.opts.PieceBytes > 0 {
		return r.opts.PieceBytes
	}
	return min(max(n/int64(r.opts.Parallel), 8<<20), 32<<20)
}

// untilClose returns a context that ends when ctx ends or r is closed. The caller calls the function to release it.
func (r *Reader) untilClose(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if r.ctx.Err() != nil {
		cancel(context.Cause(r.ctx)) // at once, which AfterFunc would not be
	}
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	return ctx, func(err error) {
		stop()
		cancel(err)
	}
}

// vector is memory to be filled from front to back.
type vector struct {
	bufs [][]byte
	n    int64 // bytes in bufs
}

// newVector returns a vector of the buffers, without empty ones.
func newVector(bufs [][]byte) *vector {
	v := &vector{}
	for _, b := range bufs {
		if len(b) > 0 {
			v.bufs = append(v.bufs, b)
			v.n += int64(len(b))
		}
	}
	return v
}

// advance takes the first n bytes, which are filled, off v. They are all in its first buffer.
func (v *vector) advance(n int) {
	v.n -= int64(n)
	if v.bufs[0] = v.bufs[0][n:]; len(v.bufs[0]) == 0 {
		v.bufs = v.bufs[1:]
	}
}

// take fills v with the beginning of b, as far as both go, and returns the number of bytes.
func (v *vector) take(b []byte) (taken int64) {
	for v.n > 0 && len(b) > 0 {
		n := copy(v.bufs[0], b)
		v.advance(n)
		b = b[n:]
		taken += int64(n)
	}
	return taken
}

// split takes up to n bytes off the front of v, and returns them as a vector.
func (v *vector) split(n int64) *vector {
	front := &vector{}
	for v.n > 0 && front.n < n {
		b := v.bufs[0][:min(int64(len(v.bufs[0])), n-front.n)]
		front.bufs = append(front.bufs, b)
		front.n += int64(len(b))
		v.advance(len(b))
	}
	return front
}
