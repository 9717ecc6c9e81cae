package remote

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// Options tune Open and Pull. A nil *Options and every zero field mean the defaults.
type Options struct {
	// Loader are the options of the model.
	Loader *loader.Options
	// HTTP are the options of requests. Header goes to the address's own server, with the credentials
	// that the environment has.
	HTTP *httprange.Options
	// NoCache writes nothing to the cache. Files that the cache has are read from there all the same.
	NoCache bool
	// CacheDir is the folder of this module's cache: incomplete files, and complete ones but for files
	// of the Hub and Ollama. "" means $XDG_CACHE_HOME/tensormap, else tensormap in os.UserCacheDir.
	CacheDir string
	// Fill lets Open fetch the rest of the model's files in the background, until the model is closed. Reads go
	// first. A file that is complete is checked, and moves to its final place.
	Fill bool
	// Progress, if set, is called by Pull and Fill with the number of bytes that are present, and of all bytes. While a
	// server without ranges sends a whole file, the numbers are for that file. One goroutine at a time calls
	// Progress.
	Progress func(have, total int64)

	downloads *downloads  // nil but for Pull, which asks servers for what stores of this machine know too, and fails without a cache
	cache     rooted.Path // the folder of this module's cache, or the zero Path, at which nothing exists
	cacheErr  error       // why cache is the zero Path: there is no home directory
}

// withDefaults returns a copy of o, which may be nil. In the copy Loader, HTTP and Progress are not nil; Loader.Logger may be nil. NoCache
// is set if there is no home directory for the cache.
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

// forPull returns the options of Pull. o are the caller's options, which may be nil. The result has the values of withDefaults with three
// exceptions. NoCache is set only if there is no home directory for the cache. downloads is set. One goroutine at a time calls Progress.
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

// partialDir returns the folder for incomplete files that are later renamed into the folder final. This module's cache is that folder. If
// the cache is on another file system than final, the folder is final/.tensormap. partialDir makes both folders. The first call for a
// folder also removes what ended processes have left there. partialDir fails if a folder cannot be made.
func (o *Options) partialDir(final rooted.Path) (rooted.Path, error) {
	dir := o.cache
	err := dir.MkdirAll()
	if err == nil { // or else nothing is left in another program's cache
		err = final.MkdirAll()
	}
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

// remember writes text to the file at path in a cache. The file appears complete or not at all. remember does nothing with NoCache, or if
// the file has that text already. It fails if writing does, but not in a cache that cannot be written to: see ignoreUnwritable.
func (o *Options) remember(path rooted.Path, text []byte) error {
	if old, err := path.Read(); o.NoCache || err == nil && string(old) == string(text) {
		return nil
	}
	return ignoreUnwritable(path.Write(text))
}

// rememberJSON writes v as JSON to the file at path in a cache, by remember. It fails if v has no JSON, or if remember fails.
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

// listingPath returns the path in this module's cache for a server's answer about identity. kind tells apart several answers about one
// identity.
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
