package remote

import (
	"context"
	"io"
	"net/http"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
)

// Source reads an object. The caller of Store.Connect closes it.
type Source = loader.Source

// versionOf returns what tells the version of the bytes that s reads from others, such as an ETag, or "" if nothing does.
func versionOf(s Source) string {
	if v, ok := s.(interface{ Version() string }); ok {
		return v.Version()
	}
	return ""
}

// withHeader returns a copy of o with the header called name set to value.
func withHeader(o httprange.Options, name, value string) *httprange.Options {
	if o.Header = o.Header.Clone(); o.Header == nil {
		o.Header = make(http.Header)
	}
	o.Header.Set(name, value)
	return &o
}

// headThenRange is a source of bytes in memory and, behind them, a range of another source. Either may be empty.
type headThenRange struct {
	head   []byte
	source Source // nil if the range is empty
	off, n int64  // the range
}

// Size returns the length of both parts together.
func (h headThenRange) Size() int64 { return int64(len(h.head)) + h.n }

// Version returns the version of the other source: see versionOf.
func (h headThenRange) Version() string { return versionOf(h.source) }

// ReadAt fills p with bytes from off on. It fails with io.ErrUnexpectedEOF if they leave the two parts. It also fails if reading the other
// source does.
func (h headThenRange) ReadAt(ctx context.Context, p []byte, off int64) error {
	if off < 0 || off > h.Size() || int64(len(p)) > h.Size()-off {
		return io.ErrUnexpectedEOF
	}
	inHead := int64(len(h.head))
	p = p[copy(p, h.head[min(off, inHead):]):]
	if len(p) == 0 {
		return nil
	}
	return h.source.ReadAt(ctx, p, h.off+max(off-inHead, 0))
}

// Close closes the other source.
func (h headThenRange) Close() error {
	if h.source == nil {
		return nil
	}
	return h.source.Close()
}
