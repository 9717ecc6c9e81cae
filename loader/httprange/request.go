package httprange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"time"
)

// readPrefix sends the first request, which learns all there is to know of the file.
func (r *Reader) readPrefix(ctx context.Context) error {
	most := r.opts.PrefixBytes
	return r.insist(ctx, r.wrapFirst, func(ctx context.Context, p *patience) error {
		r.known.Store(nil) // of an attempt that failed
		return r.exchange(ctx, p, r.rangeOf(0, most), func(resp *http.Response, body io.Reader) error {
			rng, whole := whole(resp, most)
			if !whole {
				var err error
				if rng, err = partial(resp); err != nil {
					return err
				}
			}
			r.size = rng.total
			if err := cmp.Or(r.learn(versionOf(resp), rng), rng.check(0, most)); err != nil {
				return err
			}
			r.prefix = make([]byte, min(rng.n, most))
			return receive(body, newVector([][]byte{r.prefix}), rng.n)
		})
	})
}

// peek asks for the size and the version, and for no byte.
func (r *Reader) peek(ctx context.Context) error {
	return r.insist(ctx, r.wrapFirst, func(ctx context.Context, p *patience) error {
		r.known.Store(nil)
		head := func(req *http.Request) { req.Method = http.MethodHead }
		return r.exchange(ctx, p, head, func(resp *http.Response, body io.Reader) error {
			switch {
			case resp.StatusCode != http.StatusOK:
				return refusal(resp)
			case encoding(resp) != "" || resp.ContentLength < 0:
				return fmt.Errorf("%w: it does not tell the file's length", ErrResponse)
			}
			r.size = resp.ContentLength
			return r.learn(versionOf(resp), byteRange{total: r.size})
		})
	})
}

// learn takes the version that the first answer tells for the file's. Later answers must agree.
func (r *Reader) learn(v version, rng byteRange) error {
	if need := r.opts.RequireValidator; rng.n < rng.total && v.strength < need {
		return fmt.Errorf("%w: it gives %v, %v required", ErrUnversioned, v.strength, need)
	}
	if r.known.CompareAndSwap(nil, &v) {
		if say := r.opts.Unversioned; say != nil && v.strength == NoValidator && rng.n < rng.total {
			say(r.name)
		}
		return nil
	}
	return r.version().check(v)
}

// request asks once for what v lacks, from off on, and fills v as far as the server offers,
// which may be less.
func (r *Reader) request(ctx context.Context, p *patience, v *vector, off int64) error {
	return r.exchange(ctx, p, r.rangeOf(off, v.n), func(resp *http.Response, body io.Reader) error {
		switch resp.StatusCode {
		case http.StatusPreconditionFailed:
			return ErrChanged
		case http.StatusRequestedRangeNotSatisfiable:
			return fmt.Errorf("%w: it has become shorter", ErrChanged)
		}
		rng, err := partial(resp)
		if err != nil {
			return err
		}
		if rng.total != r.size {
			return fmt.Errorf("%w: it has %d bytes now, and had %d", ErrChanged, rng.total, r.size)
		}
		if err := cmp.Or(r.learn(versionOf(resp), rng), rng.check(off, v.n)); err != nil {
			return err
		}
		return receive(body, v, rng.n)
	})
}

// rangeOf makes a request one for n bytes at off of the version that is known.
func (r *Reader) rangeOf(off, n int64) func(*http.Request) {
	return func(req *http.Request) {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+n-1))
		r.version().condition(req)
	}
}

// exchange sends a request that ask completes. answer looks at the response's head, and reads body.
func (r *Reader) exchange(ctx context.Context, p *patience, ask func(*http.Request), answer func(resp *http.Response, body io.Reader) error) error {
	p.requests++
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(p.limit(), func() { cancel(ErrStalled) })
	defer watch.Stop()
	resp, err := r.follow(ctx, func(req *http.Request) {
		req.Header.Set("Accept-Encoding", "identity")
		ask(req)
	})
	if err == nil {
		defer resp.Body.Close()
		err = answer(resp, arriving{resp.Body, r, p, watch})
		if status := new(StatusError); errors.As(err, &status) {
			r.addText(status, resp, watch)
			return err
		}
	}
	if err != nil && context.Cause(ctx) == ErrStalled {
		return fmt.Errorf("%w for %v", ErrStalled, time.Since(p.since).Round(10*time.Millisecond))
	}
	if err == nil && resp.ContentLength < 0 { // only behind the body's end can the connection be used again
		watch.Reset(100 * time.Millisecond)
		resp.Body.Read(make([]byte, 1))
	}
	return err
}

// arriving is a body that is counted. Its watch begins anew with every progress.
type arriving struct {
	body  io.Reader
	r     *Reader
	p     *patience
	watch *time.Timer
}

func (a arriving) Read(b []byte) (int, error) {
	n, err := a.body.Read(b)
	a.r.received.Add(int64(n))
	if a.p.received(n) {
		a.watch.Reset(a.p.limit())
	}
	return n, err
}

// receive reads n bytes into v.
func receive(body io.Reader, v *vector, n int64) error {
	for n > 0 {
		got, err := body.Read(v.bufs[0][:min(int64(len(v.bufs[0])), n)])
		v.advance(got)
		n -= int64(got)
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

// Get returns all of what an address answers with, and the head of that answer: what an API says,
// not a file that may change. It is patient as a Reader is. An answer of more than most bytes is
// ErrResponse, a status other than 200 a *StatusError.
func Get(ctx context.Context, address string, most int64, opts *Options) ([]byte, http.Header, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, fmt.Errorf("not an address: %w", withoutAddress(err))
	}
	r := newReader(u, opts)
	r.begin(ctx)
	defer r.Close()
	var body []byte
	var head http.Header
	wrap := func(err error) error { return &fs.PathError{Op: "get", Path: r.name, Err: withoutAddress(err)} }
	err = r.insist(ctx, wrap, func(ctx context.Context, p *patience) error {
		return r.exchange(ctx, p, func(*http.Request) {}, func(resp *http.Response, arriving io.Reader) (err error) {
			switch {
			case resp.StatusCode != http.StatusOK:
				return refusal(resp)
			case encoding(resp) != "":
				return fmt.Errorf("%w: Content-Encoding %s", ErrResponse, quoted(encoding(resp)))
			}
			head = resp.Header
			body, err = io.ReadAll(io.LimitReader(arriving, most+1))
			if int64(len(body)) > most {
				return fmt.Errorf("%w: more than %d bytes", ErrResponse, most)
			}
			return err
		})
	})
	return body, head, err
}
