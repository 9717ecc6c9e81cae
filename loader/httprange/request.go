package httprange

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// readPrefix sends the first request, which learns all there is to know of the file.
func (r *Reader) readPrefix(ctx context.Context) error {
	start := func() int64 { return 0 }
	most := r.opts.PrefixBytes
	return r.insist(ctx, start, func(p *patience) error {
		r.known.Store(nil) // of an attempt that failed
		return r.exchange(ctx, p, 0, most, func(resp *http.Response) (*vector, int64, error) {
			rng, whole := whole(resp, most)
			if !whole {
				var err error
				if rng, err = partial(resp); err != nil {
					return nil, 0, err
				}
			}
			r.size = rng.total
			if err := r.learn(versionOf(resp), rng); err != nil {
				return nil, 0, err
			}
			r.prefix = make([]byte, min(rng.n, most))
			return newVector([][]byte{r.prefix}), rng.n, rng.check(0, most)
		})
	})
}

// learn takes the version that the first answer tells for the file's. Later answers must agree.
func (r *Reader) learn(v version, rng byteRange) error {
	if need := r.opts.RequireValidator; rng.n < rng.total && v.strength < need {
		return fmt.Errorf("%w: it gives %v, %v required", ErrUnversioned, v.strength, need)
	}
	if r.known.CompareAndSwap(nil, &v) {
		return nil
	}
	return r.version().check(v)
}

// request asks once for what v lacks, from off on, and fills v as far as the server offers,
// which may be less.
func (r *Reader) request(ctx context.Context, p *patience, v *vector, off int64) error {
	return r.exchange(ctx, p, off, v.n, func(resp *http.Response) (*vector, int64, error) {
		switch resp.StatusCode {
		case http.StatusPreconditionFailed:
			return nil, 0, ErrChanged
		case http.StatusRequestedRangeNotSatisfiable:
			return nil, 0, fmt.Errorf("%w: it has become shorter", ErrChanged)
		}
		rng, err := partial(resp)
		if err != nil {
			return nil, 0, err
		}
		if rng.total != r.size {
			return nil, 0, fmt.Errorf("%w: it has %d bytes now, and had %d", ErrChanged, rng.total, r.size)
		}
		if err := r.learn(versionOf(resp), rng); err != nil {
			return nil, 0, err
		}
		return v, rng.n, rng.check(off, v.n)
	})
}

// exchange asks for n bytes at off. answer looks at the response's head. It returns the memory
// for the body, and how many bytes the body fills.
func (r *Reader) exchange(ctx context.Context, p *patience, off, n int64, answer func(*http.Response) (*vector, int64, error)) error {
	p.requests++
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(p.limit(), func() { cancel(ErrStalled) })
	defer watch.Stop()
	resp, err := r.follow(ctx, func(req *http.Request) {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+n-1))
		req.Header.Set("Accept-Encoding", "identity")
		r.version().condition(req)
	})
	if err == nil {
		defer resp.Body.Close()
		v, n, refused := answer(resp)
		if refused != nil {
			return r.withText(refused, resp, watch)
		}
		err = r.receive(resp.Body, v, n, p, watch)
	}
	if err != nil && context.Cause(ctx) == ErrStalled {
		return p.stalled()
	}
	if err == nil && resp.ContentLength < 0 {
		finish(resp.Body, watch)
	}
	return err
}

// receive reads n bytes into v. watch begins anew with every progress.
func (r *Reader) receive(body io.Reader, v *vector, n int64, p *patience, watch *time.Timer) error {
	for n > 0 {
		b := v.next()
		got, err := body.Read(b[:min(int64(len(b)), n)])
		v.advance(got)
		n -= int64(got)
		r.received.Add(int64(got))
		if p.received(got) {
			watch.Reset(p.limit())
		}
		switch {
		case n == 0:
			return nil
		case err == io.EOF:
			return fmt.Errorf("%w: %d bytes short", io.ErrUnexpectedEOF, n)
		case err != nil:
			return err
		}
	}
	return nil
}

// finish reads the end of a body of unknown length: the connection can be used again only after
// that. It does not wait long.
func finish(body io.Reader, watch *time.Timer) {
	watch.Reset(100 * time.Millisecond)
	body.Read(make([]byte, 1))
}
