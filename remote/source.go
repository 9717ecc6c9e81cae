package remote

import (
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// Source reads an object. Its methods may be called concurrently.
type Source interface {
	// ReadVector fills one buffer after another with the consecutive bytes from off on, all of them the object's,
	// or fails. It ends with ctx.
	ReadVector(ctx context.Context, bufs [][]byte, off int64) error
	io.Closer
}

// versionOf returns the validator of the version whose bytes s reads: see httprange.Reader.Version. It is "" if there
// is none.
func versionOf(s Source) string {
	if v, ok := s.(interface{ Version() string }); ok {
		return v.Version()
	}
	return ""
}

// explained is a source at an http address. explain adds to an error what it means at this server.
type explained struct {
	*httprange.Reader
	explain func(error) error
}

// openSource returns the source of size bytes at an address. Unless version is "", its reads fail for another version.
// It sends no request. Offline it fails. explain adds to errors what they mean at this server.
func openSource(ctx context.Context, address string, o httprange.Options, size int64, version string, explain func(error) error) (Source, error) {
	if isOffline() {
		return nil, errOffline
	}
	o.Size, o.Version = size, version
	r, err := httprange.Open(ctx, address, &o)
	if err != nil {
		return nil, explain(err)
	}
	return explained{r, explain}, nil
}

// ReadVector implements Source.
func (e explained) ReadVector(ctx context.Context, bufs [][]byte, off int64) error {
	return e.explain(e.Reader.ReadVector(ctx, bufs, off))
}

// withHeader returns o with one more header.
func withHeader(o httprange.Options, name, value string) *httprange.Options {
	if o.Header = o.Header.Clone(); o.Header == nil {
		o.Header = make(http.Header)
	}
	o.Header.Set(name, value)
	return &o
}

// part is a range of another source.
type part struct {
	Source
	off, size int64
}

// Version returns the version of the other source.
func (p part) Version() string { return versionOf(p.Source) }

// ReadVector fills one buffer after another with the consecutive bytes of the part from off on.
func (p part) ReadVector(ctx context.Context, bufs [][]byte, off int64) error {
	if off < 0 || off > p.size || sparse.TotalBytes(bufs) > p.size-off {
		return io.ErrUnexpectedEOF
	}
	return p.Source.ReadVector(ctx, bufs, p.off+off)
}

// text is a source in memory.
type text []byte

// ReadVector implements Source. It fails if the buffers go beyond the text.
func (t text) ReadVector(_ context.Context, bufs [][]byte, off int64) error {
	for _, b := range bufs {
		n := copy(b, t[min(off, int64(len(t))):])
		if n < len(b) {
			return io.ErrUnexpectedEOF
		}
		off += int64(n)
	}
	return nil
}

// Close implements io.Closer.
func (t text) Close() error { return nil }

// joined is a source of text and a range of another source, which follows it.
type joined struct {
	head text
	rest part
}

// ReadVector implements Source. It copies what the text has of the buffers, and reads all that follows from the range.
func (j joined) ReadVector(ctx context.Context, bufs [][]byte, off int64) error {
	bufs = slices.Clone(bufs) // whose filled beginnings are cut off
	for i, b := range bufs {
		n := copy(b, j.head[min(off, int64(len(j.head))):])
		off += int64(n)
		if bufs[i] = b[n:]; n < len(b) {
			return j.rest.ReadVector(ctx, bufs[i:], off-int64(len(j.head)))
		}
	}
	return nil
}

// Version returns the version of the range.
func (j joined) Version() string { return versionOf(j.rest) }

// Close closes the other source.
func (j joined) Close() error { return j.rest.Close() }
