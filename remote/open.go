package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// Open opens the model at an address: see the package's documentation. ctx bounds what opening reads. The model's Close also ends what it
// still reads. If the cache has all files of the model complete, Open maps them, as loader.Open does. Otherwise Open reads the index, and
// methods of tensors read what they need; all that is read is cached. A path or a file address is opened by loader.Open.
func Open(ctx context.Context, address string, opts *Options) (*loader.Model, error) {
	o := opts.withDefaults()
	d, err := resolveFolder(ctx, address, o)
	if err != nil {
		return nil, err
	}
	if d != nil {
		return d.openModel(ctx)
	}
	if scheme, rest, ok := strings.Cut(address, "://"); ok && strings.EqualFold(scheme, "file") {
		address = pathOfFileURL(rest)
	}
	return loader.Open(address, o.Loader)
}

// pathOfFileURL returns the path in rest, a file address after file:// (RFC 8089), without the host localhost and without percent-encoding.
// Malformed percent-encoding stays as it is. On Windows the path has backslashes, and none before a drive: /C:/x becomes C:\x.
func pathOfFileURL(rest string) string {
	if path, ok := strings.CutPrefix(rest, "localhost/"); ok {
		rest = "/" + path
	}
	if path, err := url.PathUnescape(rest); err == nil {
		rest = path
	}
	rest = filepath.FromSlash(rest)
	if fromDrive := strings.TrimPrefix(rest, `\`); filepath.VolumeName(fromDrive) != "" {
		return fromDrive
	}
	return rest
}

// resolveFolder returns the folder of the files at an address; it asks the server for them. A path, file:// or an unknown scheme is for
// loader.Open: the result is then nil. resolveFolder fails for a malformed address, or if the server does.
func resolveFolder(ctx context.Context, address string, o *Options) (*folder, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	switch strings.ToLower(scheme) {
	case "hf":
		return hubFolder(ctx, rest, o)
	case "http", "https":
		return webFolder(ctx, address, o)
	case "oci":
		return ociFolder(ctx, rest, o)
	case "ollama":
		return ollamaFolder(ctx, rest, o)
	case "s3":
		return bucketFolder(ctx, rest, o)
	}
	return nil, nil
}

// Pull downloads the model at an address to the cache: its weights, their index, and the files beside them for configuration, tokenizer and
// generation. An address of one file brings that file, and the shards and indexes that the model in it needs. Bytes that the cache has are
// not requested. With Options.Loader.Trust bytes are verified before they are cached. Files that the cache had are not: see
// [loader.VerifyFile].
func Pull(ctx context.Context, address string, opts *Options) (_ *Pulled, err error) {
	o := opts.forPull()
	defer func() { err = errors.Join(err, o.downloads.removeAll()) }() // resolveFolder may have downloaded too
	d, err := resolveFolder(ctx, address, o)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, fmt.Errorf("%s: %w: not an address whose files are cached", address, loader.ErrUnsupported)
	}
	return d.pull(ctx)
}

// OpenStore opens the model at a key of a store: an object, or several under a prefix. It does what Open does for an address, and fails
// if there is no model or if the store does.
func OpenStore(ctx context.Context, s Store, key string, opts *Options) (*loader.Model, error) {
	d, err := folderInStore(ctx, s, key, opts.withDefaults())
	if err != nil {
		return nil, err
	}
	return d.openModel(ctx)
}

// PullStore downloads the model at a key of a store to the cache, as Pull does for an address. It fails if there is no model, if the
// store does, or if the cache cannot be written to.
func PullStore(ctx context.Context, s Store, key string, opts *Options) (*Pulled, error) {
	d, err := folderInStore(ctx, s, key, opts.forPull())
	if err != nil {
		return nil, err
	}
	return d.pull(ctx)
}

// Options tune Open and Pull. A nil *Options and every zero field mean the defaults.
type Options struct {
	// Loader are the options of the model.
	Loader *loader.Options
	// HTTP are the options of requests. Header goes to the address's own server, beside the credentials
	// that the environment has.
	HTTP *httprange.Options
	// NoCache writes nothing to the cache. Files that the cache has are read from there all the same.
	NoCache bool
	// CacheDir is the folder of this module's cache: incomplete files, and complete ones but for those
	// of the Hub and Ollama. "" means $XDG_CACHE_HOME/tensormap, else tensormap in os.UserCacheDir.
	CacheDir string
	// Fill lets Open fetch the rest of the model's files in the background, until the model is closed. Reads go
	// first. A file that is complete is checked, and moves to its final place.
	Fill bool
	// Progress, if set, is called by Pull and Fill with the number of bytes that are present, and of all bytes. While a
	// server without ranges sends a whole file, the numbers are those of that file. One goroutine at a time calls
	// Progress.
	Progress func(have, total int64)

	downloads *downloads  // nil but for Pull, which asks servers for what stores of this machine know too, and fails without a cache
	cache     rooted.Path // the folder of this module's cache, or the zero Path, at which nothing exists
	cacheErr  error       // why cache is the zero Path: there is no home directory
}

// withDefaults returns a copy of o, which may be nil, without nil fields but the logger. NoCache is set if there is no home directory.
func (o *Options) withDefaults() *Options {
	out := *clone(o)
	out.Loader, out.HTTP = clone(out.Loader), clone(out.HTTP)
	if out.Progress == nil {
		out.Progress = func(int64, int64) {}
	}
	if out.cache.Dir = out.CacheDir; out.CacheDir == "" {
		home := os.Getenv("XDG_CACHE_HOME")
		if home == "" {
			home, out.cacheErr = os.UserCacheDir()
		}
		if out.cacheErr == nil {
			out.cache.Dir = filepath.Join(home, "tensormap")
		}
	}
	out.NoCache = out.NoCache || out.cacheErr != nil
	return &out
}

// forPull returns the options of Pull for the caller's o, which may be nil: those of withDefaults, but NoCache is set only if there is
// no home directory. Progress is called by one goroutine at a time.
func (o *Options) forPull() *Options {
	out := o.withDefaults()
	out.NoCache, out.downloads = out.cacheErr != nil, new(downloads)
	var mu sync.Mutex
	progress := out.Progress
	out.Progress = func(have, total int64) {
		mu.Lock()
		defer mu.Unlock()
		progress(have, total)
	}
	return out
}

// clone returns a copy of *o, or the zero value if o is nil.
func clone[T any](o *T) *T {
	if o == nil {
		return new(T)
	}
	c := *o
	return &c
}

// logFullCache logs that the cache takes no more bytes of the file called name, and why. During Pull it does nothing: Pull fails then.
func (o *Options) logFullCache(name string, reason error) {
	if o.downloads == nil {
		o.logger().Warn("cache takes no more, reading goes on without it", "file", name, "reason", reason)
	}
}

// logger returns the logger of o.Loader, or slog.Default without one. o is a result of withDefaults.
func (o *Options) logger() *slog.Logger {
	if o.Loader.Logger != nil {
		return o.Loader.Logger
	}
	return slog.Default()
}

// envOr returns the value of the environment variable called name, or fallback if it is empty or not set.
func envOr(name, fallback string) string { return cmp.Or(os.Getenv(name), fallback) }

// isOffline reports whether HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids requests, as huggingface_hub reads them.
func isOffline() bool {
	for _, name := range []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
		switch strings.ToLower(os.Getenv(name)) {
		case "1", "on", "yes", "true":
			return true
		}
	}
	return false
}

// errOffline is the error of what would need a request, which the environment forbids.
var errOffline = errors.New("offline (HF_HUB_OFFLINE), and not in the cache")

// partialDir returns the folder for incomplete files that are later renamed into the folder final. It makes both folders. It returns this
// module's cache, or final/.tensormap if the cache is on another file system. The first call for a folder also removes what ended processes
// have left there. partialDir fails if a folder cannot be made.
func (o *Options) partialDir(final rooted.Path) (rooted.Path, error) {
	dir := o.cache
	err := cmp.Or(dir.MkdirAll(), final.MkdirAll())
	if err == nil && !rooted.SameFileSystem(dir, final) {
		dir = final.Join(partialDirName)
		err = dir.MkdirAll()
	}
	if err != nil {
		return dir, err
	}
	if _, swept := sweptDirs.LoadOrStore(dir, true); !swept {
		if err := sparse.Sweep(dir); err != nil {
			o.logger().Warn("what was left in the cache cannot be removed", "reason", err)
		}
	}
	return dir, nil
}

// partialDirName is the name of a folder of incomplete files beside their final place.
const partialDirName = ".tensormap"

// sweptDirs are the folders that partialDir has swept.
var sweptDirs sync.Map

// remember writes text to the file at path in a cache, which appears complete or not at all. It does nothing with NoCache, or if the file
// has that text already. It ignores the error of a cache that cannot be written to: see ignoreUnwritable. It fails with others.
func (o *Options) remember(path rooted.Path, text []byte) error {
	if old, err := path.Read(); o.NoCache || err == nil && string(old) == string(text) {
		return nil
	}
	return ignoreUnwritable(path.Write(text))
}

// rememberJSON writes v as JSON to the file at path in a cache, as remember does.
func (o *Options) rememberJSON(path rooted.Path, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.remember(path, text)
}

// readJSON decodes the JSON in the file at path into the value that into points to. It fails if there is no such file, or malformed JSON.
func readJSON(path rooted.Path, into any) error {
	text, err := path.Read()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// listingPath returns the path in this module's cache of what a server has told of identity. kind tells apart answers of one identity.
func (o *Options) listingPath(identity, kind string) rooted.Path {
	return o.cache.Join("listings", derivedID(identity, kind)+".json")
}

// ignoreUnwritable returns err, or nil if err says that a cache cannot be written to: no right, no space, read-only.
func ignoreUnwritable(err error) error {
	if rooted.Unwritable(err) {
		return nil
	}
	return err
}
