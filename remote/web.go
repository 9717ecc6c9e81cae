package remote

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// web is the folder of the file at an http address, as a store that cannot be listed. Its keys are the names of files.
type web struct {
	addressedFile string
	addressedURL  *url.URL
	opts          *Options
	readers       sync.Map // a *httprange.Reader by name, which Stat has opened, and Connect has not taken yet
}

// webFolder returns a folder for an http or https address. If address is the page of a model at the Hub, or of a file or folder in one, the
// result is that model's folder. Otherwise the folder has the file at address. Other names in the folder stand for files beside that file.
// They are looked up when they are opened. webFolder fails for a malformed address, or if the server does not describe the file.
func webFolder(ctx context.Context, address string, o *Options) (*folder, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		_, err := httprange.Open(ctx, address, o.HTTP) // refuses such an address, and says why without its secrets
		return nil, err
	}
	if h, err := newHub(o); err == nil { // wrong variables of the Hub do not matter to another server
		if a, ok := parseBrowserAddress(u, h.endpoint); ok {
			return h.snapshot(ctx, a)
		}
	}
	w := &web{addressedFile: path.Base(u.Path), addressedURL: u, opts: o}
	if checkName(w.addressedFile) != nil {
		w.addressedFile = "model"
	}
	dir := *u
	dir.Path, dir.RawPath = path.Dir(u.Path), ""
	// Windows forbids colons in names; 16 digits of a SHA-256 tell folders of one host apart.
	snapshot := filepath.Join(u.Scheme, strings.ReplaceAll(u.Host, ":", "_"), addressKey(&dir)[:16])
	return folderWithoutListing(ctx, w, "", w.addressedFile, snapshot, o)
}

// url returns the address of the file called name beside the addressed one, with the same query and user. "" is the name of the folder.
func (w *web) url(name string) *url.URL {
	if name == w.addressedFile {
		return w.addressedURL
	}
	u := w.addressedURL.ResolveReference(&url.URL{Path: cmp.Or(name, ".")})
	u.RawQuery, u.User = w.addressedURL.RawQuery, w.addressedURL.User // credentials, perhaps
	return u
}

// Address returns the address of a file, for messages.
func (w *web) Address(name string) string { return httprange.NameOf(w.url(name).String()) }

// Identity returns a digest of the address of a file: see addressKey.
func (w *web) Identity(name string) string { return addressKey(w.url(name)) }

// Stat asks the server for size and version of a file. If known is still right and a cache is used, the response brings no bytes. Otherwise
// Stat also requests the file's beginning, which the source of Connect then has. The beginning is Options.HTTP.PrefixBytes long. If that is
// not set, it is as long as the head of a cached file. Without a cache it is as long as httprange's default. If the server answers no
// ranges or tells no version, Pull downloads the whole file. The version may then be download.digest. Without ranges, Open fails with
// httprange.ErrNoRanges. Stat also fails if a request does.
func (w *web) Stat(ctx context.Context, name string, known StoredObject) (StoredObject, error) {
	address, o := w.url(name).String(), *w.opts.HTTP
	if !w.opts.NoCache {
		o.PrefixBytes = cmp.Or(o.PrefixBytes, sparse.HeadBytes)
		o.Peek = known.Version != "" // or else the cache lacks the beginning
	}
	r, err := httprange.Open(ctx, address, &o)
	if o.Peek && err == nil && (StoredObject{name, r.Size(), r.Version()}) != known { // another version, or HEAD tells less than GET
		r.Close()
		o.Peek = false
		r, err = httprange.Open(ctx, address, &o)
	}
	if w.opts.downloads != nil && (errors.Is(err, httprange.ErrNoRanges) || err == nil && r.Version() == "") {
		if r != nil {
			r.Close()
		}
		f, err := w.opts.downloadWhole(ctx, address, w.opts.HTTP, func(int64) error { return nil })
		if err != nil {
			return StoredObject{}, err
		}
		return StoredObject{name, f.size, cmp.Or(f.version, f.digest)}, nil
	}
	if err != nil {
		return StoredObject{}, explainNoRanges(err)
	}
	w.readers.Store(name, r)
	return StoredObject{name, r.Size(), r.Version()}, nil
}

// Connect returns the source of a file in the version that object has. If Stat has left a reader of that size and version, the source is
// that reader. Reads of another version fail with httprange.ErrChanged. Connect fails offline, or for a malformed address.
func (w *web) Connect(ctx context.Context, name string, object StoredObject) (Source, error) {
	address := w.url(name).String()
	if r, ok := w.readers.LoadAndDelete(name); ok {
		r := r.(*httprange.Reader)
		if r.Size() == object.Size && r.Version() == object.Version {
			return &httpSource{r, address, w.opts, w.opts.HTTP, object.Version, explainNothing}, nil
		}
		r.Close()
	}
	return w.opts.openSource(ctx, address, w.opts.HTTP, object.Size, object.Version, explainNothing)
}

// addressKey returns the SHA-256, in hex, of what identifies the file at u: the address without user, signature and token.
func addressKey(u *url.URL) string {
	key := *u
	key.User, key.Fragment, key.RawFragment = nil, "", ""
	query := key.Query()
	isSignedByAzure := query.Has("sig")
	for name := range query {
		if secretParameter.MatchString(name) || isSignedByAzure && slices.Contains(azureSAS, name) {
			query.Del(name)
		}
	}
	key.RawQuery = query.Encode()
	return digest.FromString(key.String()).Encoded()
}

// azureSAS are the parameters of Azure's signatures other than sig. Source: Azure Storage REST API, "Create a service
// SAS" and "Create a user delegation SAS".
var azureSAS = []string{"sv", "ss", "srt", "sr", "st", "se", "sp", "sip", "spr", "si", "sdd", "ses", "saoid", "suoid", "scid",
	"skoid", "sktid", "skt", "ske", "sks", "skv"}

// secretParameter matches the name of a query's parameter that is a token, or part of a signature. The value of such a parameter may change,
// and is not stored. The prefixes are of Amazon, Google, Alibaba (x-oss-) and Tencent (the others).
var secretParameter = regexp.MustCompile(`(?i)^(x-amz-|x-goog-|x-oss-|x-cos-|q-sign|q-key|q-ak)|` +
	`^(signature|sig|expires|expiry|policy|key-pair-id|token|access_token|awsaccesskeyid|googleaccessid|ossaccesskeyid)$`)
