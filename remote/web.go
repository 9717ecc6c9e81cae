package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// web is the folder of the file at an http address: that file, and those beside it on the server.
type web struct {
	*folder
	addressedURL *url.URL // of the file that the address names
}

// webFolder returns a folder of the file at an http address, which looks up others beside it when they are opened. It
// asks the server for the file's size and version, and fails if it does not answer.
func webFolder(ctx context.Context, address string, o *Options) (*folder, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		_, err := httprange.Open(ctx, address, o.HTTP) // which says why
		return nil, err
	}
	cache, err := o.cache()
	if err != nil { // there is no home directory
		o = o.withoutCache()
	}
	name := path.Base(u.Path)
	if checkName(name) != nil {
		name = "model"
	}
	beside := *u
	beside.Path, beside.RawPath = path.Dir(u.Path), ""
	w := &web{addressedURL: u}
	w.folder = &folder{
		opts: o, address: httprange.NameOf(address), addressedFile: name, objects: make(map[string]object),
		messageName: func(file string) string { return httprange.NameOf(w.addressBeside(file).String()) },
		lookup:      w.lookUpBeside, followsServer: true,
		snapshotDir: cache.Join("snapshots", u.Scheme, strings.ReplaceAll(u.Host, ":", "_"), addressKey(&beside)[:16]),
	}
	first, err := w.askServer(ctx, name, u)
	w.objects[name] = first
	return w.folder, err
}

// addressBeside returns the address of the file called name in the folder of the file w.addressedURL, with the query and user of that
// address.
func (w *web) addressBeside(name string) *url.URL {
	if name == w.addressedFile {
		return w.addressedURL
	}
	u := w.addressedURL.ResolveReference(&url.URL{Path: name})
	u.RawQuery, u.User = w.addressedURL.RawQuery, w.addressedURL.User // a signature, perhaps
	return u
}

// lookUpBeside asks the server for size and version of the file called name beside the first, and returns its content. It
// fails if the server does not have the file.
func (w *web) lookUpBeside(ctx context.Context, name string) (object, error) {
	if err := checkName(name); err != nil {
		return object{}, err
	}
	return w.askServer(ctx, name, w.addressBeside(name))
}

// knownVersion is what a server last told of an address.
type knownVersion struct {
	Size    int64  `json:"size"`
	Version string `json:"version"`
	Whole   bool   `json:"whole,omitempty"` // the server answers no ranges: the file was downloaded
}

// askServer returns the content that the server has at u now, and stores its size and version for the next time. Offline,
// the content is that of last time. It fails for a file that cannot be read by ranges, but Pull downloads such a file whole.
func (w *web) askServer(ctx context.Context, name string, u *url.URL) (object, error) {
	cache, _ := w.opts.cache()
	record := cache.Join("addresses", addressKey(u)+".json")
	var before knownVersion
	text, err := record.Read()
	seen := !w.opts.NoCache && err == nil && json.Unmarshal(text, &before) == nil && before.Version != "" && before.Size >= 0
	if isOffline() {
		if !seen {
			return object{}, fmt.Errorf("%s: %w", httprange.NameOf(u.String()), errOffline)
		}
		return w.contentAt(name, u, before, nil), nil
	}
	// No bytes are requested of a version that was seen before: the cache may have them.
	first := withBeginning
	if seen {
		first = versionOnly
	}
	r, err := w.connect(ctx, u, first)
	if err == nil && seen && (r.Size() != before.Size || r.Version() != before.Version) {
		r.Close()
		r, err = w.connect(ctx, u, withBeginning)
	}
	if errors.Is(err, httprange.ErrNoRanges) {
		if w.opts.isPull && !w.opts.NoCache {
			return w.download(ctx, name, u, record)
		}
		err = fmt.Errorf("%w, and the file is read by them: pull downloads it whole", err)
	}
	if err != nil {
		return object{}, err
	}
	now := knownVersion{r.Size(), r.Version(), before.Whole}
	o := w.contentAt(name, u, now, r)
	// Pull downloads a file without a version in one response, which is of one version, unless the cache has it.
	if w.opts.isPull && !w.opts.NoCache && (now.Whole || now.Version == "") {
		f, err := o.openComplete()
		if err != nil {
			r.Close()
			return w.download(ctx, name, u, record)
		}
		f.Close()
	}
	if !w.opts.NoCache && now != before {
		if err := writeKnownVersion(record, now); err != nil {
			r.Close()
			return object{}, err
		}
	}
	return o, nil
}

// writeKnownVersion writes now to record, the file of an address in the cache. It does nothing if the version is unknown.
func writeKnownVersion(record rooted.Path, now knownVersion) error {
	if now.Version == "" {
		return nil
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return writeCacheFile(record, text)
}

// openDownload makes the file that a whole response goes to, and returns its path. It has no map: Sweep removes it if this
// process is killed, but not while it is open here.
func openDownload(of rooted.Path) (f *os.File, path rooted.Path, err error) {
	path = sparse.DataPath(of)
	if f, err = path.Open(os.O_RDWR | os.O_CREATE); err == nil {
		sparse.LockUntilClosed(f, path.String())
	}
	return f, path, err
}

// empty removes all bytes of a file, so that a response after one that was cut off begins anew.
func empty(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return errors.Join(err, f.Truncate(0))
}

// download downloads the whole file at u in one response, moves it to its path in the cache, and writes the record of
// the address. The id of a file without a version is its SHA-256; Pull downloads such a file each time. It fails if
// the download does, or if the cache cannot be written to.
func (w *web) download(ctx context.Context, name string, u *url.URL, record rooted.Path) (o object, err error) {
	id := derivedID(addressKey(u), "")
	at, err := w.opts.ownCachePaths(id)
	if err != nil {
		return o, err
	}
	dir, err := w.opts.partialDir(at.path.Parent())
	if err == nil {
		err = at.lock.Parent().MkdirAll()
	}
	if err != nil {
		return o, err
	}
	unlock, err := lockFile(ctx, at.lock)
	if err != nil {
		return o, err
	}
	defer unlock()
	f, part, err := openDownload(dir.Join(id))
	if err != nil {
		return o, err
	}
	defer f.Close()
	defer part.Remove() // nothing, once it is moved to its place
	digest := sha256.New()
	now := knownVersion{Whole: true}
	now.Version, err = httprange.Download(ctx, u.String(), func(size int64) (io.Writer, error) {
		digest.Reset() // after a response that was cut off, everything begins anew
		now.Size = size
		have := int64(0)
		return &parallel.Writer{Ctx: ctx, W: io.MultiWriter(f, digest), Wrote: func(n int) {
			if have += int64(n); w.opts.Progress != nil {
				w.opts.Progress(have, size)
			}
		}}, empty(f)
	}, w.opts.HTTP)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return o, fmt.Errorf("%s: %w", httprange.NameOf(u.String()), err)
	}
	if o = w.contentAt(name, u, now, nil); o.id == "" {
		o.id = hex.EncodeToString(digest.Sum(nil))
		if o, err = w.withCachePaths(name, o); err != nil {
			return o, err
		}
	}
	err = o.createUnderLock(ctx, waitForLock, part.Remove, func() error { return part.Rename(o.paths.path) })
	if err == nil {
		err = writeKnownVersion(record, now)
	}
	return o, err
}

// firstRequest says what connect asks the server for.
type firstRequest int

const (
	withBeginning firstRequest = iota // size, version and the first bytes
	versionOnly                       // size and version
)

// connect opens a reader of the file at u by one request, for what first says. It fails if the server refuses or lacks the file.
func (w *web) connect(ctx context.Context, u *url.URL, first firstRequest) (*httprange.Reader, error) {
	o := *w.opts.HTTP
	o.Peek = first == versionOnly
	if o.PrefixBytes == 0 && !w.opts.NoCache {
		o.PrefixBytes = sparse.HeadBytes
	}
	return httprange.Open(ctx, u.String(), &o)
}

// contentAt returns the content that the server has at u in version now, as the file called name. The first source of the content is
// r; later ones are connected anew. If r is nil, connecting fails with errOffline. Content without a version is not cached.
func (w *web) contentAt(name string, u *url.URL, now knownVersion, r *httprange.Reader) object {
	var begun atomic.Bool // r is in use
	o := object{name: httprange.NameOf(u.String()), size: now.Size, connect: func(ctx context.Context, _ string) (Source, error) {
		switch {
		case r == nil:
			return nil, errOffline
		case begun.CompareAndSwap(false, true):
			return explainedSource{r, explainNothing}, nil
		}
		again, err := w.connect(ctx, u, versionOnly)
		if err != nil {
			return nil, err
		}
		if again.Size() != now.Size || again.Version() != now.Version {
			again.Close()
			return nil, fmt.Errorf("%s: %w", again.Name(), httprange.ErrChanged)
		}
		return explainedSource{again, explainNothing}, nil
	}}
	if now.Version == "" {
		return o
	}
	o.id = derivedID(addressKey(u), now.Version)
	o, _ = w.withCachePaths(name, o) // without a home directory it has no place, and nothing is cached
	return o
}

// addressKey returns a digest, in hex, of what identifies the file at u: the address without user, signature and token.
func addressKey(u *url.URL) string {
	key := *u
	key.User, key.Fragment, key.RawFragment = nil, "", ""
	query := key.Query()
	signed := query.Has("sig") // by Azure
	for name := range query {
		if isSecret(name) || signed && slices.Contains(azureSAS, name) {
			query.Del(name)
		}
	}
	key.RawQuery = query.Encode()
	sum := sha256.Sum256([]byte(key.String()))
	return hex.EncodeToString(sum[:])
}

// azureSAS are the parameters of Azure's signatures beside sig. Source: Azure Storage REST API, "Create a service
// SAS" and "Create a user delegation SAS".
var azureSAS = []string{"sv", "ss", "srt", "sr", "st", "se", "sp", "sip", "spr", "si", "sdd", "ses", "saoid", "suoid", "scid",
	"skoid", "sktid", "skt", "ske", "sks", "skv"}

// isSecret reports whether the parameter of a query called name is a token, or part of a signature.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "signature", "sig", "expires", "expiry", "policy", "key-pair-id", "token", "access_token", "awsaccesskeyid", "googleaccessid", "ossaccesskeyid":
		return true
	}
	for _, prefix := range []string{"x-amz-", "x-goog-", "x-oss-", "x-cos-", "q-sign", "q-key", "q-ak"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
