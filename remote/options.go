package remote

import (
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
	// HTTP are the options of requests. Header goes to the address's own server, beside the credentials
	// that the environment has.
	HTTP *httprange.Options
	// NoCache writes nothing to the cache. Files that the cache has are read from there all the same.
	NoCache bool
	// CacheDir is the folder of incomplete files. "" means $XDG_CACHE_HOME/tensormap, else tensormap in
	// os.UserCacheDir, or a folder beside the final place if that is on another file system.
	CacheDir string
	// Fill lets Open fetch the rest of the model's files in the background, until the model is closed. Reads go
	// first. A file that is complete is checked, and moves to its final place.
	Fill bool
	// Progress, if set, is called by Pull and Fill with the number of bytes that are present, and of all. It is
	// called from one goroutine at a time.
	Progress func(have, total int64)

	fresh bool // set by Pull: a tag is resolved by its server, even if Ollama's store knows it
}

// withDefaults returns a copy of o, which may be nil, whose pointers can be followed.
func (o *Options) withDefaults() *Options {
	out := *clone(o)
	out.Loader, out.HTTP = clone(out.Loader), clone(out.HTTP)
	return &out
}

// clone returns a copy of options, of zeros for nil.
func clone[T any](o *T) *T {
	if o == nil {
		return new(T)
	}
	c := *o
	return &c
}

// warnFull returns a function that logs that the cache takes no more bytes of the file called name, and why. During Pull,
// which fails then, that function does nothing.
func (o *Options) warnFull(name string) func(error) {
	return func(err error) {
		if !o.fresh {
			o.logger().Warn("cache takes no more, reading goes on without it", "file", name, "reason", err)
		}
	}
}

// logger returns the logger of the loader's options, or the default one.
func (o *Options) logger() *slog.Logger {
	if o.Loader.Logger != nil {
		return o.Loader.Logger
	}
	return slog.Default()
}

// env returns the value of the environment variable name, or otherwise if it is empty or not set.
func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// isOffline reports whether the environment forbids requests, as huggingface_hub reads it.
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

// cacheHome returns the folder of caches that Linux programs use on every system, as
// huggingface_hub does.
func cacheHome() (string, error) {
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".cache"), err
}

// cacheDir returns the path of this module's cache. It fails if there is no home directory.
func (o *Options) cacheDir() (string, error) {
	if o.CacheDir != "" {
		return o.CacheDir, nil
	}
	dir := os.Getenv("XDG_CACHE_HOME")
	if dir == "" {
		var err error
		if dir, err = os.UserCacheDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "tensormap"), nil
}

// cache returns the folder of this module's cache: see cacheDir.
func (o *Options) cache() (rooted.Path, error) {
	dir, err := o.cacheDir()
	return rooted.Path{Dir: dir}, err
}

// partialDir makes and returns the folder of incomplete files that are later renamed into the folder final: it is on the
// same file system. Its first call removes files there that ended processes have left.
func (o *Options) partialDir(final rooted.Path) (rooted.Path, error) {
	dir, err := o.cache()
	if err == nil {
		err = dir.MkdirAll()
	}
	if err == nil {
		err = final.MkdirAll()
	}
	if err == nil && !sameFileSystem(dir.String(), final.String()) {
		dir = final.Join(besideName)
		err = dir.MkdirAll()
	}
	if _, swept := sweptDirs.LoadOrStore(dir, true); err == nil && !swept {
		if err := sparse.Sweep(dir); err != nil {
			o.logger().Warn("what was left in the cache cannot be removed", "reason", err)
		}
	}
	return dir, err
}

// besideName is the folder of incomplete files beside their final place.
const besideName = ".tensormap"

// sweptDirs are the folders that partialDir has swept.
var sweptDirs sync.Map

// unlessUnwritable returns err, or nil if err says that a cache cannot be written to: no right, no space, read-only.
func unlessUnwritable(err error) error {
	if sparse.Unwritable(err) {
		return nil
	}
	return err
}
