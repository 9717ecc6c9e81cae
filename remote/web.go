package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// web is the files beside each other on a server that knows nothing of models.
type web struct {
	*folder
	url *url.URL // of the file that the address names
}

// webFolder returns the file at an http address, and those beside it as they are asked for. It asks the
// server for the version of the file.
func webFolder(ctx context.Context, address string, o *Options) (*folder, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		_, err := httprange.Open(ctx, address, o.HTTP) // which says why
		return nil, err
	}
	cache, err := o.cache()
	if err != nil { // as without a home
		own := *o
		own.NoCache, o = true, &own
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

// beside returns the address of the file called name.
func (w *web) beside(name string) *url.URL {
	if name == w.file {
		return w.url
	}
	u := w.url.ResolveReference(&url.URL{Path: name})
	u.RawQuery, u.User = w.url.RawQuery, w.url.User // a signature, perhaps
	return u
}

// object asks for a file beside the first.
func (w *web) object(ctx context.Context, name string) (object, error) {
	if err := checkName(name); err != nil {
		return object{}, err
	}
	return w.ask(ctx, name, w.beside(name))
}

// known is what was last seen at an address.
type known struct {
	Size    int64  `json:"size"`
	Version string `json:"version"`
}

// ask returns the content that the server has at u now. No byte comes of a version that is known.
func (w *web) ask(ctx context.Context, name string, u *url.URL) (object, error) {
	cache, _ := w.opts.cache()
	record := cache.Join("addresses", keyOf(u)+".json")
	var before known
	text, err := os.ReadFile(record.String())
	seen := !w.opts.NoCache && err == nil && json.Unmarshal(text, &before) == nil && before.Version != "" && before.Size >= 0
	if isOffline() {
		if !seen {
			return object{}, fmt.Errorf("%s: %w", httprange.NameOf(u.String()), errOffline)
		}
		return w.at(name, u, before, nil), nil
	}
	r, err := w.connect(ctx, u, seen)
	if err != nil {
		return object{}, err
	}
	now := known{r.Size(), r.Version()}
	if !w.opts.NoCache && now.Version != "" && now != before {
		if text, err = json.Marshal(now); err == nil {
			err = writeWhole(record, text)
		}
		if err != nil {
			r.Close()
			return object{}, err
		}
	}
	return w.at(name, u, now, r), nil
}

// connect returns a reader of what is at u. peek asks for nothing of it.
func (w *web) connect(ctx context.Context, u *url.URL, peek bool) (*httprange.Reader, error) {
	o := *w.opts.HTTP
	o.Peek = peek
	if o.PrefixBytes == 0 && !w.opts.NoCache {
		o.PrefixBytes = sparse.HeadBytes
	}
	return httprange.Open(ctx, u.String(), &o)
}

// at returns the content of an address that is of one version, which r has begun to read. Without a version it
// is not kept. Offline r is nil.
func (w *web) at(name string, u *url.URL, now known, r *httprange.Reader) object {
	var begun atomic.Bool
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
		if (known{again.Size(), again.Version()}) != now {
			again.Close()
			return nil, fmt.Errorf("%s: %w", again.Name(), httprange.ErrChanged)
		}
		return again, nil
	}}
	if now.Version == "" {
		return o
	}
	o.id = identity(keyOf(u), now.Version)
	o.place, _ = w.opts.ownPlace(o.id)
	o.place.link = func() error { return relink(w.below(name), o.place.path) }
	return o
}

// relink makes the symbolic link at path lead to target, whatever it led to.
func relink(at, target rooted.Path) error {
	to, err := filepath.Rel(at.Parent().String(), target.String())
	if err != nil {
		return err
	}
	if now, err := os.Readlink(at.String()); err == nil && now == to {
		return nil
	}
	return at.Symlink(to)
}

// keyOf returns the name of an address in the cache: of what identifies the file, without what opens it.
func keyOf(u *url.URL) string {
	key := *u
	key.User, key.Fragment, key.RawFragment = nil, "", ""
	query := key.Query()
	signed := query.Has("sig")
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
