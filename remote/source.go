package remote

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/mmapio"
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

// explainedSource is a Source at an http address. explain adds to an error of the server what it means there. It returns nil for nil.
type explainedSource struct {
	*httprange.Reader
	explain func(error) error
}

// openSource returns the source of the size bytes at address. It sends no request. Unless version is "", reads fail for another version.
// explain is a function that adds to errors what they mean at this server. openSource returns errOffline offline. It fails for a malformed
// address.
func openSource(ctx context.Context, address string, o httprange.Options, size int64, version string, explain func(error) error) (Source, error) {
	if isOffline() {
		return nil, errOffline
	}
	o.Size, o.Version = size, version
	r, err := httprange.Open(ctx, address, &o)
	if err != nil {
		return nil, explain(err)
	}
	return explainedSource{r, explain}, nil
}

// ReadAt fills p with the file's bytes from off on. It fails if they are not all in the file, or if the server does, with e.explain's
// error.
func (e explainedSource) ReadAt(ctx context.Context, p []byte, off int64) error {
	return e.explain(e.Reader.ReadFull(ctx, p, off))
}

// explainNothing returns err as it is.
func explainNothing(err error) error { return err }

// withHeader returns a copy of o with the header called name set to value.
func withHeader(o httprange.Options, name, value string) *httprange.Options {
	if o.Header = o.Header.Clone(); o.Header == nil {
		o.Header = make(http.Header)
	}
	o.Header.Set(name, value)
	return &o
}

// sourceRange is a range of another source.
type sourceRange struct {
	Source
	off, size int64
}

// Size returns the length of the range in bytes.
func (p sourceRange) Size() int64 { return p.size }

// Version returns the version of the whole source: see versionOf.
func (p sourceRange) Version() string { return versionOf(p.Source) }

// ReadAt fills b with the bytes from offset off of the range on. It fails with io.ErrUnexpectedEOF if they leave the range. It also fails
// if reading the source does.
func (p sourceRange) ReadAt(ctx context.Context, b []byte, off int64) error {
	if off < 0 || off > p.size || int64(len(b)) > p.size-off {
		return io.ErrUnexpectedEOF
	}
	return p.Source.ReadAt(ctx, b, p.off+off)
}

// memorySource is a source in memory.
type memorySource []byte

// ReadAt copies bytes from off on into p. It fails with io.ErrUnexpectedEOF if there are fewer.
func (t memorySource) ReadAt(_ context.Context, p []byte, off int64) error {
	return mmapio.ReadFull(bytes.NewReader(t), p, uint64(off))
}

// Size returns the number of bytes.
func (t memorySource) Size() int64 { return int64(len(t)) }

// Close does nothing.
func (t memorySource) Close() error { return nil }

// textThenRange is a source of text and, behind it, a range of another source.
type textThenRange struct {
	sourceRange
	head memorySource
}

// Size returns the length of text and range together.
func (j textThenRange) Size() int64 { return j.head.Size() + j.sourceRange.size }

// ReadAt fills p with bytes from off on: first those of the text, then those of the range. It fails if they leave the range, or if
// reading it does. off must not be negative.
func (j textThenRange) ReadAt(ctx context.Context, p []byte, off int64) error {
	n := copy(p, j.head[min(off, j.head.Size()):])
	if n == len(p) {
		return nil
	}
	return j.sourceRange.ReadAt(ctx, p[n:], off+int64(n)-j.head.Size())
}
