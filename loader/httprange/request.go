package httprange

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// version is what a server says that tells one version of a file from another.
type version struct {
	etag     string
	modified string
}

// condition makes the server refuse req if the file is not of this version. A weak ETag
// must not be used for that (RFC 9110, section 13.1.1); it is only compared.
func (v version) condition(req *http.Request) {
	switch {
	case v.etag != "" && v.etag[0] == '"':
		req.Header.Set("If-Match", v.etag)
	case v.etag == "" && v.modified != "":
		req.Header.Set("If-Unmodified-Since", v.modified)
	}
}

func versionOf(resp *http.Response) version {
	return version{resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")}
}

func (v version) String() string {
	if v.etag != "" {
		return "ETag " + v.etag
	}
	return "of " + v.modified
}

// same compares with what a later response says, which may say nothing.
func (v version) same(now version) bool {
	if v.etag != "" && now.etag != "" {
		return v.etag == now.etag
	}
	return v.modified == "" || now.modified == "" || v.modified == now.modified
}

// readPrefix is the first request: it learns what there is to know of the file.
func (r *Reader) readPrefix(ctx context.Context) error {
	start := func() int64 { return 0 }
	most := r.opts.PrefixBytes
	return r.insist(ctx, start, func(p *patience) error {
		r.version = version{} // of an attempt that failed
		return r.exchange(ctx, p, 0, most, func(resp *http.Response) (*vector, int64, error) {
			rng, whole := whole(resp, most)
			if !whole {
				var err error
				if rng, err = partial(resp); err != nil {
					return nil, 0, err
				}
			}
			r.size, r.version = rng.total, versionOf(resp)
			r.prefix = make([]byte, min(rng.n, most))
			return newVector([][]byte{r.prefix}), rng.n, rng.check(0, most)
		})
	})
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
		if now := versionOf(resp); !r.version.same(now) {
			return nil, 0, fmt.Errorf("%w: %v now, and it was %v", ErrChanged, now, r.version)
		}
		return v, rng.n, rng.check(off, v.n)
	})
}

// exchange asks for n bytes at off. answer looks at the head of the answer and gives the
// memory that its body is for, and how many bytes of it the body fills.
func (r *Reader) exchange(ctx context.Context, p *patience, off, n int64, answer func(*http.Response) (*vector, int64, error)) error {
	p.requests++
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(p.limit(), func() { cancel(ErrStalled) })
	defer watch.Stop()
	err := r.send(ctx, off, n, func(resp *http.Response) error {
		v, n, err := answer(resp)
		if err != nil {
			return err
		}
		if err := r.receive(resp.Body, v, n, p, watch); err != nil {
			return err
		}
		if resp.ContentLength < 0 {
			finish(resp.Body, watch)
		}
		return nil
	})
	if err != nil && context.Cause(ctx) == ErrStalled {
		return p.stalled()
	}
	return err
}

func (r *Reader) send(ctx context.Context, off, n int64, use func(*http.Response) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url.String(), nil)
	if err != nil {
		return err
	}
	for name, values := range r.opts.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	req.Header.Set("Accept-Encoding", "identity")
	r.version.condition(req)
	r.requests.Add(1)
	resp, err := r.opts.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return use(resp)
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

// finish reads the end of a body that does not say beforehand where that is, without which the
// connection could not be used again. That is not worth a long time.
func finish(body io.Reader, watch *time.Timer) {
	watch.Reset(100 * time.Millisecond)
	body.Read(make([]byte, 1))
}
