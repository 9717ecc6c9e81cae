package remote

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/flight"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"github.com/tensormap/tensormap/remote/internal/sparse"
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

// ReadAt fills p with bytes from off on, where the head comes first. It fails with io.ErrUnexpectedEOF if p reaches beyond both parts. It
// also fails if reading the other source does.
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

// downloads are the files that a Pull downloads whole, since their servers answer no ranges. The zero value is ready for use.
type downloads struct {
	fetches      flight.Group[string, *download]
	byAddress    sync.Map    // a *download by its address
	removeClosed atomic.Bool // a download is removed when a source of it is closed, since nothing reads it again
}

// download is a file with all bytes of an address.
type download struct {
	*os.File
	path    rooted.Path
	size    int64
	version string // as httprange tells it
	digest  string // "sha256:" and its digits: the version if the server tells none
}

// get returns the download of address, or nil if there is none, or if d is nil.
func (d *downloads) get(address string) *download {
	if d != nil {
		if f, ok := d.byAddress.Load(address); ok {
			return f.(*download)
		}
	}
	return nil
}

// remove closes the download of address, a string, and removes its file, if there is one. It fails if the system does.
func (d *downloads) remove(address any) error {
	f, ok := d.byAddress.LoadAndDelete(address)
	if !ok {
		return nil
	}
	return errors.Join(f.(*download).Close(), f.(*download).path.Remove())
}

// removeAll removes all downloads. It fails if removing one does.
func (d *downloads) removeAll() (err error) {
	for address := range d.byAddress.Range {
		err = errors.Join(err, d.remove(address))
	}
	return err
}

// downloadWhole returns the download of address. If there is none yet, it requests all bytes in one response, and writes them to a file in
// the cache. Calls at the same time share one download. o must be the options of a Pull. downloadWhole calls o.Progress as bytes come, and
// checkSize with the size in bytes that the server announces. It fails if checkSize or the request does, or if the file cannot be written.
//
// The file stays open until downloads.remove closes and removes it. While it is open, a lock keeps Sweep from removing it. If this process
// is killed, the lock ends, and a later Sweep removes the file: a data file without a map.
func (o *Options) downloadWhole(ctx context.Context, address string, http *httprange.Options, checkSize func(size int64) error) (*download, error) {
	return o.downloads.fetches.Do(ctx, address, func(ctx context.Context) (_ *download, err error) {
		if f := o.downloads.get(address); f != nil {
			return f, nil
		}
		if err := o.cache.MkdirAll(); err != nil {
			return nil, err
		}
		f := &download{path: sparse.DataPath(o.cache.Join(rand.Text()))}
		if f.File, err = f.path.Open(os.O_RDWR | os.O_CREATE); err != nil {
			return nil, err
		}
		isWhole := false
		defer func() {
			if !isWhole { // also if Progress panics
				err = errors.Join(err, f.Close(), f.path.Remove())
			}
		}()
		sparse.LockUntilClosed(f.File, f.path.String())
		digest := sha256.New()
		f.version, err = httprange.Download(ctx, address, func(size int64) (io.Writer, error) { // again after a response that was cut off
			if err := checkSize(size); err != nil {
				return nil, err
			}
			digest.Reset()
			f.size = size
			_, err := f.Seek(0, io.SeekStart)
			have := int64(0)
			report := func(n int) {
				have += int64(n)
				o.Progress(have, size)
			}
			return &parallel.Writer{Ctx: ctx, W: io.MultiWriter(f, digest), Wrote: report}, errors.Join(err, f.Truncate(0))
		}, http)
		if err != nil {
			return nil, err
		}
		isWhole = true
		f.digest = fmt.Sprintf("sha256:%x", digest.Sum(nil))
		o.downloads.byAddress.Store(address, f)
		return f, nil
	})
}

// httpSource is a Source at an http address. Its server may answer no ranges, such as a mirror that lacks the file: it sends all of it,
// whichever range was asked for. Pull then downloads the file whole.
type httpSource struct {
	*httprange.Reader
	address string
	opts    *Options
	http    *httprange.Options
	version string // that the file must have, or ""
	explain func(error) error
}

// openSource returns the source of the size bytes at address. It sends no request, unless size is 0. version is what a Reader told, a
// strong ETag, a digest, or "". For a version of the first two kinds, reads of another version fail. explain adds to an error of the server
// what the error means there. openSource fails with errOffline offline, and for a malformed address.
func (o *Options) openSource(ctx context.Context, address string, http *httprange.Options, size int64, version string, explain func(error) error) (Source, error) {
	if isOffline() {
		return nil, errOffline
	}
	ofFile := *http
	ofFile.Size, ofFile.Version = size, version // a digest, as downloads have, is none of the server's: httprange then takes the version for unknown
	r, err := httprange.Open(ctx, address, &ofFile)
	if err != nil {
		return nil, explain(err)
	}
	return &httpSource{r, address, o, http, version, explain}, nil
}

// explainNothing returns err as it is.
func explainNothing(err error) error { return err }

// ReadAt fills p with the file's bytes from off on. If Pull has downloaded the whole file already, ReadAt reads from the download.
// Otherwise it sends a range request, unless s.version is the digest of a download. If the server answers no ranges, and Pull has opened s,
// ReadAt downloads the whole file first. If Open has opened s, ReadAt then fails with httprange.ErrNoRanges. It fails with
// httprange.ErrChanged if the download has another version than s. It also fails if the server, the download or reading the file does.
func (s *httpSource) ReadAt(ctx context.Context, p []byte, off int64) error {
	f := s.opts.downloads.get(s.address)
	if f == nil {
		err := error(httprange.ErrNoRanges)
		if !strings.HasPrefix(s.version, "sha256:") { // or else ranges might be of another version than the download, which nothing tells
			err = s.ReadFull(ctx, p, off)
		}
		if s.opts.downloads == nil || !errors.Is(err, httprange.ErrNoRanges) {
			return s.explain(explainNoRanges(err))
		}
		f, err = s.opts.downloadWhole(ctx, s.address, s.http, func(size int64) error {
			if size != s.Size() {
				return fmt.Errorf("%w: %d bytes are announced, not %d", httprange.ErrResponse, size, s.Size())
			}
			return nil
		})
		if err != nil {
			return s.explain(err)
		}
	}
	if s.version != "" && s.version != f.version && s.version != f.digest {
		return fmt.Errorf("%s: %w", httprange.NameOf(s.address), httprange.ErrChanged)
	}
	_, err := f.ReadAt(p, off)
	return err
}

// Close closes the source, and removes its download if Pull does not read it again. It fails if removing does.
func (s *httpSource) Close() error {
	s.Reader.Close() // never fails
	if s.opts.downloads != nil && s.opts.downloads.removeClosed.Load() {
		return s.opts.downloads.remove(s.address)
	}
	return nil
}

// explainNoRanges adds to httprange.ErrNoRanges what helps. It returns other errors as they are, and nil for nil.
func explainNoRanges(err error) error {
	if errors.Is(err, httprange.ErrNoRanges) {
		return fmt.Errorf("%w, and the file is read by them: pull downloads it whole", err)
	}
	return err
}
