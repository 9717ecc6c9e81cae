package httprange

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tensormap/tensormap/internal/parallel"
)

// ReadAt implements io.ReaderAt. It fails as ReadFull does, and with io.EOF if p reaches past the end of the file.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	return r.ReadAtContext(r.ctx, p, off)
}

// ReadAtContext does what ReadAt does, until ctx ends. The error is io.EOF if p reaches past the end of the file.
func (r *Reader) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, r.wrap(off, errors.New("negative offset"))
	}
	want := p[:min(int64(len(p)), max(r.size-off, 0))]
	if err := r.ReadFull(ctx, want, min(off, r.size)); err != nil {
		return 0, err
	}
	if len(want) < len(p) {
		return len(want), io.EOF
	}
	return len(want), nil
}

// ReadFull fills p with the bytes from off on. All of them must be in the file. Several requests at once serve a long
// range. After an error the content of p is undefined.
func (r *Reader) ReadFull(ctx context.Context, p []byte, off int64) error {
	if off < 0 || off > r.size || int64(len(p)) > r.size-off {
		return r.wrap(off, fmt.Errorf("%d bytes leave the file of %d: %w", len(p), r.size, io.ErrUnexpectedEOF))
	}
	ctx, cancel := r.untilClose(ctx)
	defer cancel(nil)
	requests := parallel.Group{Stop: func() { cancel(nil) }}
	fetch := func(piece []byte, at int64) func() error {
		return func() error {
			err := r.fetchRange(ctx, piece, at)
			if err != nil {
				cancel(err) // the read has failed: the other requests are of no use
			}
			return nil
		}
	}
	n := copy(p, r.prefix[min(off, int64(len(r.prefix))):])
	rest, at := p[n:], off+int64(n)
	for n := r.pieceBytes(int64(len(rest))); int64(len(rest)) > n; at += n {
		requests.Go(fetch(rest[:n], at))
		rest = rest[n:]
	}
	if len(rest) > 0 {
		requests.Here(fetch(rest, at))
	}
	requests.Wait()       // panics if a client's transport has panicked
	if ctx.Err() == nil { // no request has failed
		return nil
	}
	err, known := context.Cause(ctx), new(Error)
	if errors.As(err, &known) {
		return err
	}
	return r.wrap(off, err)
}

// pieceBytes returns the maximum of bytes that one request asks for in a read of n bytes. It is larger in a longer
// read: fewer requests wait for the server.
func (r *Reader) pieceBytes(n int64) int64 {
	if r.opts.PieceBytes > 0 {
		return r.opts.PieceBytes
	}
	return min(max(n/int64(r.opts.Parallel), 8<<20), 32<<20)
}

// untilClose returns a context that ends when ctx ends or r is closed. The caller must call cancel, which ends it too.
func (r *Reader) untilClose(ctx context.Context) (_ context.Context, cancel context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(ctx)
	if r.ctx.Err() != nil {
		end(context.Cause(r.ctx)) // at once, which AfterFunc would not be
	}
	stop := context.AfterFunc(r.ctx, func() { end(context.Cause(r.ctx)) })
	return ctx, func(err error) {
		stop()
		end(err)
	}
}
