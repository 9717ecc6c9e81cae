package httprange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"
)

// readPrefix reads the file's first Options.PrefixBytes bytes into r.prefix, or the whole of a shorter file. It sets r.size and r.known
// from the response. After a response that was cut off, it requests the missing bytes alone. A response with the whole file is different.
// If its version is not strong, or the server has sent no range, readPrefix requests all bytes anew. readPrefix fails as rangeIn and
// checkOrStoreVersion do, if the server refuses, or once attempts or time are used up.
func (r *Reader) readPrefix(ctx context.Context) error {
	limit := r.opts.PrefixBytes
	var missing []byte // the rest of r.prefix, once a response with its beginning was cut off
	return r.retry(ctx, func(ctx context.Context, p *progress) error {
		if len(missing) > 0 {
			return r.fillByRequests(ctx, p, &missing, int64(len(r.prefix)))
		}
		r.known.Store(nil) // of an attempt that failed
		return r.requestOnce(ctx, p, 0, r.askForRange(0, limit), func(resp *http.Response, body io.Reader) error {
			rng, isWhole, err := rangeIn(resp, limit)
			if err != nil {
				return err
			}
			r.size = rng.total
			if err := cmp.Or(r.checkOrStoreVersion(versionOf(resp), rng), rng.checkWithin(0, limit)); err != nil {
				return err
			}
			r.prefix = make([]byte, min(rng.n, limit))
			rest := r.prefix
			err = readInto(body, &rest, rng.n)
			// A file that comes whole with Open is of one version. So it must come by one response, unless its version is strong.
			mustComeAtOnce := isWhole || (rng.n == rng.total && !r.version().strong)
			if anyCame := int64(len(rest)) < rng.n; anyCame && !mustComeAtOnce {
				missing = rest
			}
			return err
		})
	})
}

// peek asks for the file's size and version by HEAD, and sets r.size and r.known. It fails with a *StatusError if the server refuses, and
// with ErrResponse if the response does not tell the size. It also fails once attempts or time are used up.
func (r *Reader) peek(ctx context.Context) error {
	return r.requestWhole(ctx, http.MethodHead, func(resp *http.Response, _ io.Reader) (err error) {
		r.known.Store(nil) // of an attempt that failed
		if r.size, err = sizeOf(resp); err != nil {
			return err
		}
		return r.checkOrStoreVersion(versionOf(resp), byteRange{total: r.size})
	})
}

// checkOrStoreVersion compares v with r.known. v is the version that a response tells, and rng the range of the file in that response. If
// r.known is nil, checkOrStoreVersion stores v there instead. It then also calls Options.Unversioned if v is empty and rng is not the whole
// file. checkOrStoreVersion fails with ErrChanged if the two ETags differ. If the ETag in r.known is not strong, it also does so if the
// Last-Modified differ. With Options.RequireVersion it fails with ErrUnversioned if v is not strong and rng is not the whole file.
func (r *Reader) checkOrStoreVersion(v version, rng byteRange) error {
	if r.opts.RequireVersion && !v.strong && rng.n < rng.total {
		return fmt.Errorf("%w: it has %v", ErrUnversioned, v)
	}
	if r.known.CompareAndSwap(nil, &v) {
		if say := r.opts.Unversioned; say != nil && v == (version{}) && rng.n < rng.total {
			say(r.name)
		}
		return nil
	}
	if known := r.version(); known.etag != v.etag || !known.strongETag() && known.modified != v.modified {
		return fmt.Errorf("%w: it has %v now, and had %v", ErrChanged, v, known)
	}
	return nil
}

// fillByRequests fills *rest with the bytes of the file that end at offset end. It sends requests until no byte is missing, and advances
// *rest past the bytes that it has filled. It fails if a request fails. It also fails, with ErrStalled, after a response that ends early
// without progress: fewer than minProgress bytes have come.
func (r *Reader) fillByRequests(ctx context.Context, p *progress, rest *[]byte, end int64) error {
	for len(*rest) > 0 {
		if err := r.requestRange(ctx, p, rest, end-int64(len(*rest))); err != nil {
			return err
		}
		// Each time that minProgress bytes have come, the count of requests begins at 0 again: if it is more, fewer came.
		if len(*rest) > 0 && p.requestsSinceProgress > 0 {
			return fmt.Errorf("%w: an answer was short, %d bytes are missing", ErrStalled, len(*rest))
		}
	}
	return nil
}

// requestRange sends one request for the len(*rest) bytes of the file at off. It advances *rest past the bytes that come, which may be
// fewer. The server may send the whole file instead, of at most Options.PrefixBytes bytes: requestRange then skips the bytes before off. It
// fails with ErrChanged if the file has another version or size now. It fails with ErrResponse if the response has bytes that were not
// asked for. It also fails if sending does, or as rangeIn does.
func (r *Reader) requestRange(ctx context.Context, p *progress, rest *[]byte, off int64) error {
	n := int64(len(*rest))
	return r.requestOnce(ctx, p, off, r.askForRange(off, n), func(resp *http.Response, body io.Reader) error {
		switch resp.StatusCode {
		case http.StatusPreconditionFailed:
			return ErrChanged
		case http.StatusRequestedRangeNotSatisfiable:
			return fmt.Errorf("%w: it has become shorter", ErrChanged)
		}
		rng, isWhole, err := rangeIn(resp, r.opts.PrefixBytes)
		if err != nil {
			return err
		}
		if rng.total != r.size {
			return fmt.Errorf("%w: it has %d bytes now, and had %d", ErrChanged, rng.total, r.size)
		}
		err = r.checkOrStoreVersion(versionOf(resp), rng)
		if !isWhole {
			err = cmp.Or(err, rng.checkWithin(off, n))
		}
		if err != nil {
			return err
		}
		if isWhole {
			if _, err := io.CopyN(io.Discard, body, off); err != nil { // what is before off
				return err
			}
			rng.n = min(n, rng.n-off)
		}
		return readInto(body, rest, rng.n)
	})
}

// askForRange returns a function that sets the headers of a request for n bytes at off, in the known version.
func (r *Reader) askForRange(off, n int64) func(*http.Request) {
	return func(req *http.Request) {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+n-1))
		r.version().condition(req)
	}
}

// requestOnce sends one request, and calls use with the response. Before it sends the request, complete may change that. use must read
// body, never resp.Body: body counts the bytes that are read as progress of p. off is the offset in the file of the first byte that is
// requested. requestOnce fails if sending or use does. To a *StatusError of use it adds the server's text. It fails with ErrStalled after
// p.requestLimit without progress.
func (r *Reader) requestOnce(ctx context.Context, p *progress, off int64, complete func(*http.Request), use func(resp *http.Response, body io.Reader) error) error {
	p.requestsSinceProgress++
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(p.requestLimit(), func() { cancel(ErrStalled) })
	defer watch.Stop()
	resp, err := r.follow(ctx, func(req *http.Request) {
		req.Header.Set("Accept-Encoding", "identity")
		complete(req)
	})
	if err == nil {
		defer resp.Body.Close()
		err = use(resp, &countedBody{resp.Body, off, p, watch})
		if status := new(StatusError); errors.As(err, &status) {
			r.addText(status, resp, watch)
			return err
		}
	}
	if err != nil && context.Cause(ctx) == ErrStalled {
		return fmt.Errorf("%w for %v", ErrStalled, time.Since(p.since).Round(10*time.Millisecond))
	}
	// Without a length, only a read sees the end, after which the connection can be used again. A body that goes on for 100 ms more costs
	// the connection, and is no error.
	if err == nil && resp.ContentLength < 0 {
		watch.Reset(100 * time.Millisecond)
		resp.Body.Read(make([]byte, 1))
	}
	return err
}

// countedBody is a response's body that counts what is read of it. watch is the timer that ends the request.
type countedBody struct {
	body  io.Reader
	at    int64 // offset of the next byte
	p     *progress
	watch *time.Timer
}

// Read reads from the body into b, and counts the bytes for c.p. If minProgress bytes have come since the timer that ends the request
// was last restarted, it restarts the timer.
func (c *countedBody) Read(b []byte) (int, error) {
	n, err := c.body.Read(b)
	c.at += int64(n)
	if madeProgress := c.p.received(c.at, n); madeProgress {
		c.watch.Reset(c.p.requestLimit())
	}
	return n, err
}

// readInto reads n bytes of body into the first n bytes of *rest, and advances *rest past the bytes that it has filled. *rest must have at
// least n bytes. readInto fails if reading does, and with io.ErrUnexpectedEOF if body has fewer than n bytes.
func readInto(body io.Reader, rest *[]byte, n int64) error {
	got, err := io.ReadFull(body, (*rest)[:n])
	*rest = (*rest)[got:]
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: %d bytes short", io.ErrUnexpectedEOF, n-int64(got))
	}
	return err
}

// Get returns the body and the header of the response at an address, such as an API's. It retries as a Reader does. It fails with
// a *StatusError if the server refuses. It fails with ErrResponse for a body of more than limit bytes or with a
// Content-Encoding, and for a status of success other than 200.
func Get(ctx context.Context, address string, limit int64, opts *Options) ([]byte, http.Header, error) {
	var body []byte
	var head http.Header
	err := getWhole(ctx, address, opts, func(resp *http.Response, r io.Reader) (err error) {
		head = resp.Header
		body, err = io.ReadAll(io.LimitReader(r, limit+1))
		if int64(len(body)) > limit {
			return fmt.Errorf("%w: more than %d bytes", ErrResponse, limit)
		}
		return err
	})
	return body, head, err
}

// getWhole requests the whole file at address, and calls use with the response, by requestWhole. It fails if the server refuses, if use
// does, or if address is neither http nor https. Errors name the file.
func getWhole(ctx context.Context, address string, opts *Options, use func(resp *http.Response, body io.Reader) error) error {
	r, err := newReader(ctx, address, opts)
	if err != nil {
		return err
	}
	defer r.Close()
	if err = r.requestWhole(ctx, http.MethodGet, use); err != nil {
		return &fs.PathError{Op: "get", Path: r.name, Err: withoutAddress(err)}
	}
	return nil
}

// requestWhole requests the whole file, and calls use with the response. With method HEAD it requests the header alone. After a temporary
// failure it sends the request and calls use again. It fails for another status than 200, for a Content-Encoding, or if use fails. It also
// fails once attempts or time are used up.
func (r *Reader) requestWhole(ctx context.Context, method string, use func(resp *http.Response, body io.Reader) error) error {
	return r.retry(ctx, func(ctx context.Context, p *progress) error {
		setMethod := func(req *http.Request) { req.Method = method }
		return r.requestOnce(ctx, p, 0, setMethod, func(resp *http.Response, body io.Reader) error {
			switch {
			case resp.StatusCode != http.StatusOK:
				return statusError(resp)
			case contentEncoding(resp) != "":
				return fmt.Errorf("%w: Content-Encoding %s", ErrResponse, quoted(contentEncoding(resp)))
			}
			return use(resp, body)
		})
	})
}

// sizeOf returns the file's size in bytes, by the Content-Length of resp, a response with the whole file. It fails with ErrResponse if resp
// has no Content-Length.
func sizeOf(resp *http.Response) (int64, error) {
	if resp.ContentLength < 0 { // the connection's end need not be the end of the file
		return 0, fmt.Errorf("%w: it does not tell the file's length", ErrResponse)
	}
	return resp.ContentLength, nil
}

// Download copies the whole file at address, by one response. It serves files whose server answers no ranges. Download calls begin with the
// file's size in bytes, and writes the file to the writer that begin returns. After a response that was cut off, Download calls begin
// again, and writes all bytes to the new writer. It does not close the earlier one. version is the text that Reader.Version returns for the
// file. Download fails for another status than 200, for a Content-Encoding, or if a response does not tell the size. It also fails once
// attempts or time are used up, if begin or the writer fails, or if address is neither http nor https.
func Download(ctx context.Context, address string, begin func(size int64) (io.Writer, error), opts *Options) (version string, err error) {
	err = getWhole(ctx, address, opts, func(resp *http.Response, body io.Reader) error {
		size, err := sizeOf(resp)
		if err != nil {
			return err
		}
		version = versionOf(resp).encode()
		w, err := begin(size)
		if err != nil {
			return &writeError{err}
		}
		_, err = io.Copy(markingWriter{w}, body)
		return err
	})
	return version, err
}

// markingWriter is a writer whose errors are *writeError, and so are told from the server's, after which a request is repeated.
type markingWriter struct{ io.Writer }

// Write writes b. It fails with *writeError if the writer does.
func (w markingWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

// writeError is an error of the caller's function or writer: another request would not help.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }
