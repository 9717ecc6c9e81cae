package httprange

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
)

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
	err = r.insist(ctx, wrap, func(p *patience) error {
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
