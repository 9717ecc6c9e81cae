package httprange

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tensormap/tensormap/internal/parallel"
)

// ReadAt fills p with the bytes from off on, and implements io.ReaderAt. If p reaches past the end of the file, it returns the
// number of bytes up to there and io.EOF. It fails for a negative off, and as ReadFull does.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	return r.ReadAtContext(r.ctx, p, off)
}

// ReadAtContext does what ReadAt does, and fails with the cause of ctx when that ends.
func (r *Reader) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, r.wrap(off, errors.New("negative offset"))
	}
	want := p[:min(int64(len(p)), max(r.size-off, 0))] // what the file has of p
	if err := r.ReadFull(ctx, want, min(off, r.size)); err != nil {
		return 0, err
	}
	if len(want) < len(p) {
		return len(want), io.EOF
	}
	return len(want), nil
}

// ReadFull fills p with the file's bytes from off on. It reads a long range by several requests at once. It fails if the range leaves
// the file, or if a request fails for good. It fails when ctx ends, or once r is closed. The error is the error of the request that failed
// first. After an error the content of p is undefined.
func (r *Reader) ReadFull(ctx context.Context, p []byte, off int64) error {
	if off < 0 || off > r.size || int64(len(p)) > r.size-off {
		return r.wrap(off, fmt.Errorf("%d bytes leave the file of %d: %w", len(p), r.size, io.ErrUnexpectedEOF))
	}
	ctx, cancel := r.untilClose(ctx)
	defer cancel(nil)
	requests := parallel.Group{Stop: func() { cancel(nil) }} // a failure ends the others
	fetch := func(b []byte, at int64) func() error {
		return func() error { return r.fetchRange(ctx, b, at) }
	}
	fromPrefix := copy(p, r.prefix[min(off, int64(len(r.prefix))):]) // what readPrefix has read already
	rest, at := p[fromPrefix:], off+int64(fromPrefix)
	for n := r.requestBytes(int64(len(rest))); int64(len(rest)) > n; at += n {
		requests.Go(fetch(rest[:n], at))
		rest = rest[n:]
	}
	if len(rest) > 0 {
		requests.Here(fetch(rest, at)) // the last request, in this goroutine
	}
	err := requests.Wait() // the first failure; panics if a client's transport has panicked
	if err == nil && ctx.Err() != nil {
		err = r.wrap(off, context.Cause(ctx))
	}
	return err
}

// requestBytes returns how many bytes one request asks for at most in a read of n bytes: Options.RequestBytes, or else an equal
// share for each of Options.Parallel requests, between 8 and 32 MiB.
func (r *Reader) requestBytes(n int64) int64 {
	if r.opts.RequestBytes > 0 {
		return r.opts.RequestBytes
	}
	return min(max(n/int64(r.opts.Parallel), 8<<20), 32<<20)
}

// untilClose returns a context that ends when ctx ends or r is closed. The caller must call cancel, which ends it too.
func (r *Reader) untilClose(ctx context.Context) (_ context.Context, cancel context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(ctx)
	if r.ctx.Err() != nil {
		end(context.Cause(r.ctx)) // now: AfterFunc would call it later, in another goroutine
	}
	stop := context.AfterFunc(r.ctx, func() { end(context.Cause(r.ctx)) })
	return ctx, func(err error) {
		stop()
		end(err)
	}
}
