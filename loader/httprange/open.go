package httprange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"sync/atomic"
	"time"

	"github.com/tensormap/tensormap/loader"
)

// Options tune a Reader. A nil *Options and every zero field mean the defaults.
type Options struct {
	// Client sends the requests; nil means one of this package, which reuses connections. Its CheckRedirect is called for
	// each redirect that the Reader does not refuse itself, such as a redirect from https to http.
	Client *http.Client
	// Header is sent with every request to the address's own server (scheme, host and
	// port), for example Authorization. A request that a redirect has led elsewhere goes
	// without all of it.
	Header http.Header
	// Authorizer, if set, adds credentials to requests to the address's own server, after Header.
	Authorizer Authorizer
	// Parallel is the number of requests that may run at once; 0 means 8.
	Parallel int
	// RequestBytes is the maximum number of bytes that one request asks for. 0 means 8 MiB, and up to 32 MiB in a read that is
	// long enough for Parallel requests of that size.
	RequestBytes int64
	// PrefixBytes is what Open reads of the file's beginning, where formats have their
	// index, and keeps; 0 means 128 KiB. OpenSibling reads a quarter of it: of a model in
	// many files each has a small part of the index.
	PrefixBytes int64
	// Size, if positive, is the length of the file in bytes, which the caller knows. Open then sends no
	// request. The first answer must have the same length, and tells the version. OpenSibling ignores Size.
	Size int64
	// Version, with Size, is the Version of another Reader of the file, or a strong ETag. Every request is for
	// that version. For any other text the first answer tells the version.
	Version string
	// Peek makes Open ask for the file's size and version alone (HEAD): the caller may have the file's bytes. If the
	// server refuses HEAD or does not tell the size, Open also asks for the beginning.
	Peek bool
	// Timeout is how long a read may go without progress in all: its requests, the pauses
	// between them, and the wait for a turn among Parallel. Progress is 4 KiB, or the end of
	// the read. A server that asks to wait longer (Retry-After) ends the read at once. 0
	// means 30 s.
	Timeout time.Duration
	// Attempts bounds the requests that follow each other without progress; 0 means 5. A
	// read of n bytes takes at most Attempts × (1 + n/4096) requests, rounded down, for each
	// range of RequestBytes.
	Attempts int
	// Pause is the time before the second attempt; it doubles each time, up to 64 times
	// as much, and varies at random by half. 0 means 200 ms.
	Pause time.Duration
	// Stall is how long one request may make no progress before it is canceled and sent
	// again. The time begins when the request does, before it connects, and anew with each progress.
	// 0 means half of Timeout.
	Stall time.Duration
	// RequireVersion makes Open fail with ErrUnversioned unless the server notices every change of the file: Version tells how. A file
	// that comes whole with Open needs no version.
	RequireVersion bool
	// Silent, if set, is called by a read that has made no progress for 3 s, or half of Timeout if
	// that is less: once until it makes progress again. host is the address's. Several reads may
	// call it at once. A read waits for its call before it returns; if that panics, so does the read.
	Silent func(host string)
	// Unversioned, if set, is called once for each file whose changes would go unnoticed, with its
	// Name: the server tells neither ETag nor Last-Modified, so that only a change of length is noticed.
	Unversioned func(name string)
}

// Authorizer adds credentials to requests that need more than a constant header: tokens that expire,
// signatures. It is called concurrently, and never for a request that a redirect has led to another
// server.
type Authorizer interface {
	// Authorize completes a request.
	Authorize(req *http.Request) error
	// Refused is called after an answer with status 401. again is true if Authorize has other credentials now: the
	// request is then sent once more. An error of Refused ends the read.
	Refused(resp *http.Response) (again bool, err error)
}

// withDefaults returns a copy of o, which may be nil, with defaults in place of zeros.
func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Client == nil {
		out.Client = defaultClient
	}
	setDefault(&out.Parallel, 8)
	setDefault(&out.PrefixBytes, 128<<10)
	setDefault(&out.Attempts, 5)
	setDefault(&out.Pause, 200*time.Millisecond)
	setDefault(&out.Timeout, 30*time.Second)
	setDefault(&out.Stall, out.Timeout/2)
	return out
}

// setDefault sets *v to def unless it is positive.
func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// defaultClient has no limits on time of its own: Options.Timeout covers all. It has no dialer
// either, since net/http uses a browser's fetch (GOOS=js) only without one.
var defaultClient = &http.Client{
	Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     60 * time.Second,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // offsets are offsets in the file itself
		// Of every answer under way; many times what servers send.
		MaxResponseHeaderBytes: 256 << 10,
		// All requests share a connection, a dead one too: it is found out before they stall.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second},
	},
}

// Reader reads one remote file. It is safe for concurrent use.
type Reader struct {
	url    *url.URL
	name   string // for messages
	opts   Options
	queue  *queue          // shared with siblings
	ctx    context.Context // of all reads: until Close, with the values of Open's
	cancel context.CancelCauseFunc

	size   int64
	known  atomic.Pointer[version]        // nil until a response has told it
	target atomic.Pointer[redirectTarget] // where redirects have led, nil if nowhere
	prefix []byte
}

// Open returns a Reader of the file at address (http or https). It asks the server for the file's first bytes: the answer
// tells its size, its version, and whether the server knows ranges. With Options.Size Open sends no request.
// ctx bounds Open's requests; its values go with later ones too. Open fails if address is neither http nor https, or if the
// server refuses or sends no range. It also fails with ErrUnversioned: see Options.RequireVersion.
func Open(ctx context.Context, address string, opts *Options) (*Reader, error) {
	r, err := newReader(context.WithoutCancel(ctx), address, opts)
	if err != nil {
		return nil, err
	}
	if r.size = max(r.opts.Size, 0); r.size == 0 {
		return r.askForStart(ctx)
	}
	if known := parseVersion(r.opts.Version); known.strong { // or else the first read asks for the version
		r.known.Store(&known)
	}
	return r, nil
}

// newReader returns a Reader of the file at address. If address has a user, newReader moves that into the header of requests. It sends no
// request. Requests end with Close, or when life ends. newReader fails if address is neither http nor https. The error does not quote
// address, which may have secrets.
func newReader(life context.Context, address string, opts *Options) (*Reader, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("not an address: %w", withoutAddress(err))
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("not an http or https address")
	}
	o := opts.withDefaults()
	o.Header = ownServerHeader(o.Header, u.User)
	u.User = nil
	r := &Reader{url: u, name: publicName(u), opts: o}
	r.queue = &queue{turns: make(chan struct{}, o.Parallel), born: time.Now()}
	r.ctx, r.cancel = context.WithCancelCause(life)
	return r, nil
}

var _ loader.Folder = (*Reader)(nil)

// Open returns the file called name in the same place, for a model that turns out to have several files. It fails if
// OpenSibling does. If name is r's own Name, the result reads through r, and its Close leaves r open.
func (r *Reader) Open(ctx context.Context, name string) (loader.FolderFile, error) {
	if name == r.name {
		return loader.FromReaderAt(name, r, r.size).Open(ctx, name)
	}
	s, err := r.OpenSibling(ctx, name)
	if err != nil {
		return loader.FolderFile{}, err
	}
	return loader.FolderFile{Name: s.name, Source: source{s}}, nil
}

// source is a Reader as a loader.Source.
type source struct{ *Reader }

// ReadAt fills p with the file's bytes from off on, by ReadFull. It fails if ReadFull does.
func (s source) ReadAt(ctx context.Context, p []byte, off int64) error {
	return s.ReadFull(ctx, p, off)
}

// askForStart asks for the file's size, version and beginning, and returns r. With Options.Peek it first asks for size and version alone.
// It then asks for the beginning only if the server refuses the first request, or does not tell the size. askForStart ends when ctx ends.
// It fails if the last request does, and then closes r.
func (r *Reader) askForStart(ctx context.Context) (_ *Reader, err error) {
	if r.opts.Peek {
		err = r.peek(ctx)
	}
	if !r.opts.Peek || errors.As(err, new(*StatusError)) || errors.Is(err, ErrResponse) {
		err = r.readPrefix(ctx)
	}
	if err != nil {
		r.Close()
		return nil, r.wrap(0, err)
	}
	return r, nil
}

// OpenSibling opens the file called name beside the file of r. The result has the options of r, with a quarter of its PrefixBytes. Both
// files share the limit of parallel requests. The address keeps its query, which may be a signature. The caller closes the result; closing
// r closes it too. OpenSibling fails if name has a slash or is otherwise not the name of a file. It also fails if r is closed, or if the
// server refuses or lacks the file.
func (r *Reader) OpenSibling(ctx context.Context, name string) (*Reader, error) {
	if name != path.Base(name) || name == "." || name == ".." || name == "/" {
		return nil, fmt.Errorf("%q is not the name of a file beside %s", name, r.name)
	}
	u := r.url.ResolveReference(&url.URL{Path: name})
	u.RawQuery = r.url.RawQuery
	s := &Reader{url: u, name: publicName(u), opts: r.opts, queue: r.queue}
	s.ctx, s.cancel = context.WithCancelCause(r.ctx)
	s.opts.PrefixBytes = max(1, s.opts.PrefixBytes/4) // each of several files has a small part of the model's index
	ctx, cancel := r.untilClose(ctx)
	defer cancel(nil)
	return s.askForStart(ctx)
}

// Name returns the file's address as messages show it: without user, password and query.
func (r *Reader) Name() string { return r.name }

// Size returns the length of the file in bytes.
func (r *Reader) Size() int64 { return r.size }

// Version returns a text that no other version of the file has: its strong ETag, or else its Last-Modified, followed by
// the weak ETag in a second line. It returns "" if the ETag is not strong, and Last-Modified is missing or less than a second
// before the response: another change in that second would have the same date.
func (r *Reader) Version() string { return r.version().encode() }

// version returns r.known, or the zero value if r.known is nil. Open sets r.known to a strong Options.Version. Otherwise the first
// response sets it.
func (r *Reader) version() version {
	if v := r.known.Load(); v != nil {
		return *v
	}
	return version{}
}

// Close ends all reads through r and through the siblings that it has opened, also running ones. The reads fail with an
// error that wraps [os.ErrClosed]. Close itself never fails.
func (r *Reader) Close() error {
	r.cancel(os.ErrClosed)
	return nil
}
