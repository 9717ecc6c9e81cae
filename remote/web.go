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

	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// web is the files in one folder of a web server.
type web struct {
	*folder
	url *url.URL // of the file that the address names
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
		uncached := *o
		uncached.NoCache, o = true, &uncached
	}
	name := path.Base(u.Path)
	if checkName(name) != nil {
		name = "model"
	}
	beside := *u
	beside.Path, beside.RawPath = path.Dir(u.Path), ""
	w := &web{url: u}
	w.folder = &folder{
		opts: o, address: httprange.NameOf(address), file: name, objects: make(map[string]object),
		name:   func(file string) string { return httprange.NameOf(w.beside(file).String()) },
		lookup: w.object,
		dir:    cache.Join("snapshots", u.Scheme, strings.ReplaceAll(u.Host, ":", "_"), keyOf(&beside)[:16]),
	}
	first, err := w.ask(ctx, name, u)
	w.objects[name] = first
	return w.folder, err
}

// beside returns the address of the file called name in the folder of the file w.url, with the query and user of that
// address.
func (w *web) beside(name string) *url.URL {
	if name == w.file {
		return w.url
	}
	u := w.url.ResolveReference(&url.URL{Path: name})
	u.RawQuery, u.User = w.url.RawQuery, w.url.User // a signature, perhaps
	return u
}

// object asks the server for size and version of the file called name beside the first, and returns its content.
func (w *web) object(ctx context.Context, name string) (object, error) {
	if err := checkName(name); err != nil {
		return object{}, err
	}
	return w.ask(ctx, name, w.beside(name))
}

// known is what a server last told of an address.
type known struct {
	Size    int64  `json:"size"`
	Version string `json:"version"`
	Whole   bool   `json:"whole,omitempty"` // the server answers no ranges: the file was downloaded
}

// ask returns the content that the server has at u now, and stores its size and version for the next time. Offline, the
// content is that of last time. If the file cannot be read by ranges, ask fails, but for Pull, which downloads it at
// once.
func (w *web) ask(ctx context.Context, name string, u *url.URL) (object, error) {
	cache, _ := w.opts.cache()
	record := cache.Join("addresses", keyOf(u)+".json")
	var before known
	text, err := record.Read()
	seen := !w.opts.NoCache && err == nil && json.Unmarshal(text, &before) == nil && before.Version != "" && before.Size >= 0
	if isOffline() {
		if !seen {
			return object{}, fmt.Errorf("%s: %w", httprange.NameOf(u.String()), errOffline)
		}
		return w.at(name, u, before, nil), nil
	}
	// No bytes are requested of a version that was seen before: the cache may have them.
	r, err := w.connect(ctx, u, seen)
	if err == nil && seen && (r.Size() != before.Size || r.Version() != before.Version) {
		r.Close()
		r, err = w.connect(ctx, u, false)
	}
	if errors.Is(err, httprange.ErrNoRanges) {
		if w.opts.fresh && !w.opts.NoCache {
			return w.download(ctx, name, u, record)
		}
		err = fmt.Errorf("%w, and the file is read by them: pull downloads it whole", err)
	}
	if err != nil {
		return object{}, err
	}
	now := known{r.Size(), r.Version(), before.Whole}
	o := w.at(name, u, now, r)
	// Pull downloads a file without a version in one response, which is of one version, unless the cache has it.
	if w.opts.fresh && !w.opts.NoCache && (now.Whole || now.Version == "") {
		f, err := o.find()
		if err != nil {
			r.Close()
			return w.download(ctx, name, u, record)
		}
		f.Close()
	}
	if !w.opts.NoCache && now != before {
		if err := writeKnown(record, now); err != nil {
			r.Close()
			return object{}, err
		}
	}
	return o, nil
}

// writeKnown writes the record of an address. It does nothing if the version is unknown.
func writeKnown(record rooted.Path, now known) error {
	if now.Version == "" {
		return nil
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return writeWhole(record, text)
}

// download downloads the whole file at u in one response, moves it to its path in the cache, and writes the record of
// the address. The id of a file without a version is its SHA-256; Pull downloads such a file each time.
func (w *web) download(ctx context.Context, name string, u *url.URL, record rooted.Path) (o object, err error) {
	id := identity(keyOf(u), "")
	at, err := w.opts.ownPlace(id)
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
	part := sparse.DataPath(dir.Join(id)) // it has no map: Sweep removes it if this process is killed
	f, err := part.Open(os.O_RDWR | os.O_CREATE)
	if err != nil {
		return o, err
	}
	defer f.Close()
	defer part.Remove() // nothing, once it is moved to its place
	sparse.Hold(f, part.String())
	digest := sha256.New()
	now := known{Whole: true}
	now.Version, err = httprange.Download(ctx, u.String(), func(size int64) (io.Writer, error) {
		digest.Reset() // after a response that was cut off, everything begins anew
		now.Size = size
		_, err := f.Seek(0, io.SeekStart)
		return io.MultiWriter(f, digest, &progressWriter{w.opts.Progress, 0, size}), errors.Join(err, f.Truncate(0))
	}, w.opts.HTTP)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return o, fmt.Errorf("%s: %w", httprange.NameOf(u.String()), err)
	}
	if o = w.at(name, u, now, nil); o.id == "" {
		w.cacheAs(&o, hex.EncodeToString(digest.Sum(nil)), name)
	}
	err = o.put(ctx, true /* wait for the lock */, part.Remove, func() error { return part.Rename(o.place.path) })
	if err == nil {
		err = writeKnown(record, now)
	}
	return o, err
}

// progressWriter calls progress with the number of bytes that were written to it.
type progressWriter struct {
	progress   func(have, total int64)
	have, size int64
}

// Write implements io.Writer. It never fails.
func (t *progressWriter) Write(b []byte) (int, error) {
	if t.have += int64(len(b)); t.progress != nil {
		t.progress(t.have, t.size)
	}
	return len(b), nil
}

// connect asks the server for size, version and beginning of the file at u, or with peek for size and version alone.
func (w *web) connect(ctx context.Context, u *url.URL, peek bool) (*httprange.Reader, error) {
	o := *w.opts.HTTP
	o.Peek = peek
	if o.PrefixBytes == 0 && !w.opts.NoCache {
		o.PrefixBytes = sparse.HeadBytes
	}
	return httprange.Open(ctx, u.String(), &o)
}

// at returns the content that the server had at u in version now, as the file called name. Its first source is r, which
// is open; later ones are connected anew. If r is nil, connecting is errOffline. Content without a version is not
// cached.
func (w *web) at(name string, u *url.URL, now known, r *httprange.Reader) object {
	var begun atomic.Bool // r is in use
	o := object{name: httprange.NameOf(u.String()), size: now.Size, connect: func(ctx context.Context, _ string) (Source, error) {
		switch {
		case r == nil:
			return nil, errOffline
		case begun.CompareAndSwap(false, true):
			return r, nil
		}
		again, err := w.connect(ctx, u, true)
		if err != nil {
			return nil, err
		}
		if again.Size() != now.Size || again.Version() != now.Version {
			again.Close()
			return nil, fmt.Errorf("%s: %w", again.Name(), httprange.ErrChanged)
		}
		return again, nil
	}}
	if now.Version == "" {
		return o
	}
	w.cacheAs(&o, identity(keyOf(u), now.Version), name)
	return o
}

// cacheAs sets the id of content o, its path in the cache, and the link that leads from name in the snapshot to it.
func (w *web) cacheAs(o *object, id, name string) {
	o.id = id
	o.place, _ = w.opts.ownPlace(id)
	at := o.place.path
	o.place.link = func() error { return relink(w.below(name), at) }
}

// keyOf returns a digest, in hex, of what identifies the file at u: the address without user, signature and token.
func keyOf(u *url.URL) string {
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

// isSecret reports whether a parameter of a query is part of a signature, or a token.
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
