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

// readPrefix reads the file's beginning, and learns its size and version. If the first response is cut off, other
// requests get the rest.
func (r *Reader) readPrefix(ctx context.Context) error {
	limit := r.opts.PrefixBytes
	var missing *vector // the rest of the prefix, once a beginning of it is received and stays valid
	return r.retry(ctx, r.wrapFirst, func(ctx context.Context, p *progress) error {
		if missing != nil {
			return r.complete(ctx, p, missing, int64(len(r.prefix)))
		}
		r.known.Store(nil) // of an attempt that failed
		return r.exchange(ctx, p, 0, r.rangeOf(0, limit), func(resp *http.Response, body io.Reader) error {
			rng, isWhole := wholeFile(resp, limit)
			if !isWhole {
				var err error
				if rng, err = partialRange(resp); err != nil {
					return err
				}
			}
			r.size = rng.total
			if err := cmp.Or(r.learn(versionOf(resp), rng), rng.check(0, limit)); err != nil {
				return err
			}
			r.prefix = make([]byte, min(rng.n, limit))
			v := newVector([][]byte{r.prefix})
			err := receive(body, v, rng.n)
			// A file that one response has whole is of one version, whatever the server says of it: see Validator.
			if one := rng.n == rng.total && r.version().strength < StrongValidator; !isWhole && !one && v.n < rng.n {
				missing = v
			}
			return err
		})
	})
}

// peek asks for the file's size and version by HEAD. It fails with ErrResponse if the response does not tell the size.
func (r *Reader) peek(ctx context.Context) error {
	return r.retry(ctx, r.wrapFirst, func(ctx context.Context, p *progress) error {
		r.known.Store(nil)
		head := func(req *http.Request) { req.Method = http.MethodHead }
		return r.exchange(ctx, p, 0, head, func(resp *http.Response, body io.Reader) error {
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

// learn stores v, the version that a response tells, if it is the first. Else it fails with ErrChanged if v is another
// version. It fails with ErrUnversioned if v is weaker than Options.RequireValidator, unless rng, the response's range,
// is the whole file.
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

// complete fills v with the file's bytes up to offset end, by as many requests as it takes. It fails if one request
// fails, or ends early after fewer than minProgress bytes.
func (r *Reader) complete(ctx context.Context, p *progress, v *vector, end int64) error {
	for v.n > 0 {
		if err := r.request(ctx, p, v, end-v.n); err != nil {
			return err
		}
		if v.n > 0 && p.requests > 0 { // progress would have set it to 0
			return fmt.Errorf("%w: an answer was short, %d bytes are missing", ErrStalled, v.n)
		}
	}
	return nil
}

// request asks once for the bytes of v, which begin at off, and fills as many as the server sends. The server may
// send a small file whole instead.
func (r *Reader) request(ctx context.Context, p *progress, v *vector, off int64) error {
	return r.exchange(ctx, p, off, r.rangeOf(off, v.n), func(resp *http.Response, body io.Reader) error {
		switch resp.StatusCode {
		case http.StatusPreconditionFailed:
			return ErrChanged
		case http.StatusRequestedRangeNotSatisfiable:
			return fmt.Errorf("%w: it has become shorter", ErrChanged)
		}
		rng, isWhole := wholeFile(resp, r.opts.PrefixBytes)
		if !isWhole {
			var err error
			if rng, err = partialRange(resp); err != nil {
				return err
			}
		}
		if rng.total != r.size {
			return fmt.Errorf("%w: it has %d bytes now, and had %d", ErrChanged, rng.total, r.size)
		}
		err := r.learn(versionOf(resp), rng)
		if !isWhole {
			err = cmp.Or(err, rng.check(off, v.n))
		}
		if err != nil {
			return err
		}
		if isWhole {
			if _, err := io.CopyN(io.Discard, body, off); err != nil { // what is before off
				return err
			}
			rng.n = min(v.n, rng.n-off)
		}
		return receive(body, v, rng.n)
	})
}

// rangeOf returns a function that makes a request one for n bytes at off, of the known version.
func (r *Reader) rangeOf(off, n int64) func(*http.Request) {
	return func(req *http.Request) {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+n-1))
		r.version().condition(req)
	}
}

// exchange sends one request that ask completes, and passes the response to answer, whose error it returns. body has
// the file's bytes from off on: what answer reads of it counts as progress. Without progress for long it fails with
// ErrStalled.
func (r *Reader) exchange(ctx context.Context, p *progress, off int64, ask func(*http.Request), answer func(resp *http.Response, body io.Reader) error) error {
	p.requests++
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(p.requestLimit(), func() { cancel(ErrStalled) })
	defer watch.Stop()
	resp, err := r.follow(ctx, func(req *http.Request) {
		req.Header.Set("Accept-Encoding", "identity")
		ask(req)
	})
	if err == nil {
		defer resp.Body.Close()
		err = answer(resp, &countedBody{resp.Body, off, r, p, watch})
		if status := new(StatusError); errors.As(err, &status) {
			r.addText(status, resp, watch)
			return err
		}
	}
	if err != nil && context.Cause(ctx) == ErrStalled {
		return fmt.Errorf("%w for %v", ErrStalled, time.Since(p.since).Round(10*time.Millisecond))
	}
	if err == nil && resp.ContentLength < 0 { // the connection can be used again only after the end of the body
		watch.Reset(100 * time.Millisecond)
		resp.Body.Read(make([]byte, 1))
	}
	return err
}

// countedBody is a body that counts what is read. Progress resets the watch, which ends the request.
type countedBody struct {
	body  io.Reader
	at    int64 // offset of the next byte
	r     *Reader
	p     *progress
	watch *time.Timer
}

// Read implements io.Reader.
func (a *countedBody) Read(b []byte) (int, error) {
	n, err := a.body.Read(b)
	a.r.received.Add(int64(n))
	a.at += int64(n)
	if a.p.received(a.at, n) {
		a.watch.Reset(a.p.requestLimit())
	}
	return n, err
}

// receive reads n bytes of body into v, which has memory for as many, and takes what is filled off v. It fails with
// io.ErrUnexpectedEOF if body has fewer.
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

// Get returns the body and the header of the response at an address, such as an API's. It retries as a Reader does. A
// body of more than limit bytes is ErrResponse, a status other than 200 a *StatusError.
func Get(ctx context.Context, address string, limit int64, opts *Options) ([]byte, http.Header, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, fmt.Errorf("not an address: %w", withoutAddress(err))
	}
	var body []byte
	var head http.Header
	err = newReader(u, opts).get(ctx, func(resp *http.Response, r io.Reader) (err error) {
		head = resp.Header
		body, err = io.ReadAll(io.LimitReader(r, limit+1))
		if int64(len(body)) > limit {
			return fmt.Errorf("%w: more than %d bytes", ErrResponse, limit)
		}
		return err
	})
	return body, head, err
}

// get requests the whole file, and closes r at the end. answer reads the body; after a temporary failure it is called
// again, with another response from the beginning. It fails for another status than 200, and for an encoded body.
func (r *Reader) get(ctx context.Context, answer func(resp *http.Response, body io.Reader) error) error {
	r.begin(ctx)
	defer r.Close()
	wrap := func(err error) error { return &fs.PathError{Op: "get", Path: r.name, Err: withoutAddress(err)} }
	return r.retry(ctx, wrap, func(ctx context.Context, p *progress) error {
		return r.exchange(ctx, p, 0, func(*http.Request) {}, func(resp *http.Response, body io.Reader) error {
			switch {
			case resp.StatusCode != http.StatusOK:
				return refusal(resp)
			case encoding(resp) != "":
				return fmt.Errorf("%w: Content-Encoding %s", ErrResponse, quoted(encoding(resp)))
			}
			return answer(resp, body)
		})
	})
}

// Download copies a file whole, from a server that answers no ranges. It calls begin with the file's size, and writes
// the file to the result. It does both again after a response that was cut off. version is what Reader.Version
// returns.
func Download(ctx context.Context, address string, begin func(size int64) (io.Writer, error), opts *Options) (version string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("not an address: %w", withoutAddress(err))
	}
	err = newReader(u, opts).get(ctx, func(resp *http.Response, body io.Reader) error {
		if resp.ContentLength < 0 { // the connection's end need not be that of the file
			return fmt.Errorf("%w: it does not tell the file's length", ErrResponse)
		}
		version = versionOf(resp).text()
		w, err := begin(resp.ContentLength)
		if err != nil {
			return &writeError{err}
		}
		_, err = io.Copy(writing{w}, body)
		return err
	})
	return version, err
}

// writing is a writer whose errors are not retried: they are not the server's.
type writing struct{ io.Writer }

// Write implements io.Writer.
func (w writing) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

// writeError is an error of the caller's writer.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }
