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

// webFolder returns a folder of the one file at an http address. It asks the server for the file's size and version. Other names in the
// folder stand for files beside it on the server, which are looked up when they are opened. webFolder fails for a malformed address, or if
// the server does not tell of the file.
func webFolder(ctx context.Context, address string, o *Options) (*folder, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		_, err := httprange.Open(ctx, address, o.HTTP) // refuses such an address, and says why without its secrets
		return nil, err
	}
	cache, err := o.cache()
	if err != nil { // there is no home directory: cache is the zero Path, and nothing is read or written there
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
		// Windows forbids colons in names; 16 digits of a SHA-256 tell folders of one host apart.
		snapshotDir: cache.Join("snapshots", u.Scheme, strings.ReplaceAll(u.Host, ":", "_"), addressKey(&beside)[:16]),
	}
	if w.objects[name], err = w.askServer(ctx, name, u); err != nil {
		return nil, err
	}
	return w.folder, nil
}

// addressBeside returns the address of the file called name beside the one at w.addressedURL, with the query and the user of
// w.addressedURL.
func (w *web) addressBeside(name string) *url.URL {
	if name == w.addressedFile {
		return w.addressedURL
	}
	u := w.addressedURL.ResolveReference(&url.URL{Path: name})
	u.RawQuery, u.User = w.addressedURL.RawQuery, w.addressedURL.User // credentials, perhaps
	return u
}

// lookUpBeside returns the content of the file called name beside the one at w.addressedURL. It fails for a name that leaves the folder,
// or as askServer does.
func (w *web) lookUpBeside(ctx context.Context, name string) (object, error) {
	if err := checkName(name); err != nil {
		return object{}, err
	}
	return w.askServer(ctx, name, w.addressBeside(name))
}

// knownVersion is what a server has told of the file at an address. Version is "" if nothing is known, or if the server tells none.
type knownVersion struct {
	Size    int64  `json:"size"`
	Version string `json:"version"`
	Whole   bool   `json:"whole,omitempty"` // the server answers no ranges: Pull has downloaded the file in one response
}

// askServer asks the server for size and version of the file at u, writes them to the cache, and returns the file's content. name is the
// file's name. Offline it returns the content of the last answer in the cache. It returns errOffline if there is none.
//
// If the server answers no ranges, Pull downloads the whole file. Open then fails with httprange.ErrNoRanges. If the server tells no
// version, or answered no ranges before, Pull also downloads the file, unless the cache has it. askServer also fails if a request or
// writing the cache does.
func (w *web) askServer(ctx context.Context, name string, u *url.URL) (object, error) {
	cache, _ := w.opts.cache() // without a home directory NoCache is set
	record := cache.Join("addresses", addressKey(u)+".json")
	var before knownVersion
	if !w.opts.NoCache {
		before = readKnownVersion(record)
	}
	if isOffline() {
		if before.Version == "" {
			return object{}, fmt.Errorf("%s: %w", httprange.NameOf(u.String()), errOffline)
		}
		return w.contentAt(name, u, before, nil), nil
	}
	mayDownload := w.opts.isPull && !w.opts.NoCache
	r, err := w.connectSince(ctx, u, before)
	if errors.Is(err, httprange.ErrNoRanges) {
		if mayDownload {
			return w.download(ctx, name, u, record)
		}
		err = fmt.Errorf("%w, and the file is read by them: pull downloads it whole", err)
	}
	if err != nil {
		return object{}, err
	}
	now := knownVersion{Size: r.Size(), Version: r.Version(), Whole: before.Whole}
	o := w.contentAt(name, u, now, r)
	if mayDownload && (now.Whole || now.Version == "") { // ranges have failed before, or may mix versions, as one response does not
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

// readKnownVersion returns what writeKnownVersion has written to record. It returns the zero value if the file cannot be read, or is
// malformed.
func readKnownVersion(record rooted.Path) (known knownVersion) {
	text, err := record.Read()
	if err != nil || json.Unmarshal(text, &known) != nil || known.Size < 0 {
		return knownVersion{}
	}
	return known
}

// writeKnownVersion writes now, what a server has told of a file, to record, the cache's file for its address. If now.Version is "", it
// does nothing. It fails if the cache cannot be written to.
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

// openDownload makes the file that a whole response is written to, the data file of name, and returns it with its path. There is no map: if
// this process is killed, Sweep removes the file later. Until the file is closed it is locked against that. openDownload fails if the file
// cannot be made.
func openDownload(name rooted.Path) (f *os.File, path rooted.Path, err error) {
	path = sparse.DataPath(name)
	if f, err = path.Open(os.O_RDWR | os.O_CREATE); err == nil {
		sparse.LockUntilClosed(f, path.String())
	}
	return f, path, err
}

// empty removes all bytes of a file and seeks to its start, so that another response can be written after one that was cut off. It fails if
// the system does.
func empty(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return errors.Join(err, f.Truncate(0))
}

// progressWriter returns a writer to w for size bytes. It calls o.Progress, if set, with the number of bytes written so far, and fails
// when ctx ends.
func (o *Options) progressWriter(ctx context.Context, w io.Writer, size int64) io.Writer {
	have := int64(0)
	return &parallel.Writer{Ctx: ctx, W: w, Wrote: func(n int) {
		if have += int64(n); o.Progress != nil {
			o.Progress(have, size)
		}
	}}
}

// download downloads the whole file at u in one response, moves it to its path in the cache, and returns its content. name is the file's
// name. record is the cache's file for the address u: download writes size and version there, unless the server tells no version. Content
// without a version gets the SHA-256 of its bytes as its id. download fails if the request does, or if the cache cannot be written to.
func (w *web) download(ctx context.Context, name string, u *url.URL, record rooted.Path) (o object, err error) {
	addressID := derivedID(addressKey(u), "") // the id of the content is not known yet
	addressPaths, err := w.opts.ownCachePaths(addressID)
	if err != nil {
		return o, err
	}
	dir, err := w.opts.partialDir(addressPaths.path.Parent())
	if err == nil {
		err = addressPaths.lock.Parent().MkdirAll()
	}
	if err != nil {
		return o, err
	}
	unlock, err := lockFile(ctx, addressPaths.lock)
	if err != nil {
		return o, err
	}
	defer unlock()
	f, part, err := openDownload(dir.Join(addressID))
	if err != nil {
		return o, err
	}
	defer f.Close()
	defer part.Remove() // does nothing once the file has moved to its place
	digest := sha256.New()
	now := knownVersion{Whole: true}
	now.Version, err = httprange.Download(ctx, u.String(), func(size int64) (io.Writer, error) {
		digest.Reset() // after a response that was cut off, everything begins anew
		now.Size = size
		return w.opts.progressWriter(ctx, io.MultiWriter(f, digest), size), empty(f)
	}, w.opts.HTTP)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return o, fmt.Errorf("%s: %w", httprange.NameOf(u.String()), err)
	}
	o = w.contentAt(name, u, now, nil) // complete: nothing connects
	if o.id == "" {                    // the server tells no version
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

// connectSince opens a reader of the file at u. before is what the cache knows of the file. If nothing is known, or size or version are
// others now, connectSince also requests the file's beginning. Otherwise the cache may have that. It fails as connect does.
func (w *web) connectSince(ctx context.Context, u *url.URL, before knownVersion) (*httprange.Reader, error) {
	if before.Version == "" {
		return w.connect(ctx, u, withBeginning)
	}
	r, err := w.connect(ctx, u, versionOnly)
	if err != nil || r.Size() == before.Size && r.Version() == before.Version {
		return r, err
	}
	r.Close()
	return w.connect(ctx, u, withBeginning)
}

// connect opens a reader of the file at u by one request: for size and version alone if first is versionOnly, or else also for the file's
// beginning. With a cache, the beginning is as long as the head of a cached file unless Options.HTTP sets PrefixBytes. It fails if the
// server refuses, lacks the file or answers no ranges.
func (w *web) connect(ctx context.Context, u *url.URL, first firstRequest) (*httprange.Reader, error) {
	o := *w.opts.HTTP
	o.Peek = first == versionOnly
	if o.PrefixBytes == 0 && !w.opts.NoCache {
		o.PrefixBytes = sparse.HeadBytes
	}
	return httprange.Open(ctx, u.String(), &o)
}

// contentAt returns the content that the server has at u, as the file called name. now tells its size and version. r is an open reader of
// it, or nil. The first source of the content is r; that source closes r. Later ones connect anew, and fail with httprange.ErrChanged if
// size or version differ from now. If r is nil, as offline or for a complete file, connecting fails with errOffline. Content without a
// version has no id, and is not cached.
func (w *web) contentAt(name string, u *url.URL, now knownVersion, r *httprange.Reader) object {
	var isTaken atomic.Bool // r is a source's already
	o := object{name: httprange.NameOf(u.String()), size: now.Size, connect: func(ctx context.Context, _ string) (Source, error) {
		switch {
		case r == nil:
			return nil, errOffline
		case isTaken.CompareAndSwap(false, true):
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
	o, _ = w.withCachePaths(name, o) // without a home directory it returns o without paths, and nothing is cached
	return o
}

// addressKey returns the SHA-256, in hex, of what identifies the file at u: the address without user, signature and token.
func addressKey(u *url.URL) string {
	key := *u
	key.User, key.Fragment, key.RawFragment = nil, "", ""
	query := key.Query()
	isSignedByAzure := query.Has("sig")
	for name := range query {
		if isSecret(name) || isSignedByAzure && slices.Contains(azureSAS, name) {
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

// isSecret reports whether a query's parameter called name is a token, or part of a signature. The value of such a parameter may change,
// and is not stored. The prefixes are of Amazon, Google, Alibaba (x-oss-) and Tencent (the others).
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
