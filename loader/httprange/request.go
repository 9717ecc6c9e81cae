package httprange

import (
	"cmp"
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
	return r.retry(ctx, start, func() error {
		var prefix []byte
		v := newVector(nil)
		r.version = version{} // of an attempt that failed
		err := r.exchange(ctx, 0, r.opts.PrefixBytes, func(resp *http.Response) (*vector, error) {
			if empty(resp) {
				return v, nil
			}
			rng, err := partial(resp)
			if err != nil {
				return nil, err
			}
			r.size, r.version = rng.total, versionOf(resp)
			prefix = make([]byte, min(rng.n, r.opts.PrefixBytes))
			v = newVector([][]byte{prefix})
			return v, rng.check(0, r.opts.PrefixBytes)
		})
		r.prefix = prefix
		return cmp.Or(err, v.complete())
	})
}

// request asks once for what v lacks, from off on, and fills v as far as the answer goes.
func (r *Reader) request(ctx context.Context, v *vector, off int64) error {
	err := r.exchange(ctx, off, v.n, func(resp *http.Response) (*vector, error) {
		rng, err := partial(resp)
		if err != nil {
			return nil, err
		}
		if rng.total != r.size {
			return nil, fmt.Errorf("%w: it has %d bytes now, and had %d", ErrChanged, rng.total, r.size)
		}
		if now := versionOf(resp); !r.version.same(now) {
			return nil, fmt.Errorf("%w: %v now, and it was %v", ErrChanged, now, r.version)
		}
		return v, rng.check(off, v.n)
	})
	return cmp.Or(err, v.complete())
}

// exchange asks for n bytes at off. answer looks at the head of the answer and gives the
// memory that its body is for.
func (r *Reader) exchange(ctx context.Context, off, n int64, answer func(*http.Response) (*vector, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(r.opts.Stall, func() { cancel(ErrStalled) })
	defer watch.Stop()
	err := r.send(ctx, off, n, func(resp *http.Response) error {
		v, err := answer(resp)
		if err != nil {
			return err
		}
		return r.receive(resp, v, watch)
	})
	if err != nil && context.Cause(ctx) == ErrStalled {
		return fmt.Errorf("%w: %v", ErrStalled, r.opts.Stall)
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

// receive reads the body of resp into v, as much of v as the body has.
func (r *Reader) receive(resp *http.Response, v *vector, watch *time.Timer) error {
	for v.n > 0 {
		n, err := resp.Body.Read(v.next())
		v.advance(n)
		r.received.Add(int64(n))
		if n > 0 {
			watch.Reset(r.opts.Stall)
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}
