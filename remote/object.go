package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// object is content that never changes, with its source and its place in a cache.
type object struct {
	name string // what messages call it
	size int64
	// id names the content: a digest in hex, or what identity returns.
	id string
	// origin names the server that sends the content, unless id does. Until all has come, nothing else vouches for it.
	origin string
	// check reads the content, and compares it with its digest. It is nil if there is none.
	check func(ctx context.Context, r io.Reader) error
	// connect returns the source. It is called when bytes are missing, and need not ask for any. ctx bounds what
	// it asks, not the reads of the source. With an origin, these are of the version, which versionOf has told of a
	// source before, if that is not "".
	connect func(ctx context.Context, version string) (Source, error)
	place   place
}

// place is where an object lies once it is complete.
type place struct {
	path  rooted.Path
	named string       // the path by the name that link gives: on systems without links the content is there; or ""
	lock  rooted.Path  // file to lock while the content moves to path, or none
	own   bool         // the place is tensormap's; the time of lock says when it was last used
	link  func() error // gives the complete content its name beside others; or nil
}

// digestID matches git's id of a blob, and SHA-256.
var digestID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// identity returns the id of content that its address and a strong validator tell from other content.
func identity(address, validator string) string {
	sum := sha256.Sum256([]byte(address + "\n" + validator))
	return "v-" + hex.EncodeToString(sum[:])
}

// partial returns the name of the incomplete file. Each origin has its own: what one server sends under a digest is not
// taken for what another one has.
func (o *object) partial() string {
	if o.origin == "" {
		return o.id
	}
	return identity(o.origin, o.id)
}

// sha256Check returns the check of content whose SHA-256 is digest, in hex.
func sha256Check(digest string) func(ctx context.Context, r io.Reader) error {
	return func(ctx context.Context, r io.Reader) error { return checkDigest(ctx, r, sha256.New(), digest) }
}

// checkDigest reads r, and compares what h makes of it with want, in hex.
func checkDigest(ctx context.Context, r io.Reader, h hash.Hash, want string) error {
	for n := int64(1); n > 0; {
		var err error
		if n, err = io.CopyN(h, r, 8<<20); err != nil && err != io.EOF {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%w: its digest is %s, not %s", layout.ErrChecksum, got, want)
	}
	return nil
}

// find opens the object if it is complete in its place.
func (o *object) find() (*os.File, error) {
	f, err := rooted.Regular(o.place.path.String())
	if errors.Is(err, fs.ErrNotExist) && o.place.named != "" {
		f, err = rooted.Regular(o.place.named)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != o.size {
		err = fmt.Errorf("%s has %d bytes, not %d: remove it", f.Name(), info.Size(), o.size)
	}
	if err == nil {
		err = o.linked()
	}
	if err == nil && o.place.own {
		if !sparse.Hold(f, f.Name()) {
			err = &fs.PathError{Op: "open", Path: f.Name(), Err: fs.ErrNotExist}
		}
		o.place.lock.Touch()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// linked makes sure that the complete content has its name. A cache that cannot be written to is
// read all the same.
func (o *object) linked() error {
	if o.place.link == nil {
		return nil
	}
	return unlessUnwritable(o.place.link())
}

// move gives the content of f, whose bytes are all there, its place, if its digest is right. If another process is doing
// that, it waits, or returns errBusy if waits is false.
func (o *object) move(ctx context.Context, f *file, waits bool) error {
	return o.put(ctx, waits, f.part.Remove, func() error {
		return f.part.Finish(o.place.path, func(r io.Reader) error {
			if o.check == nil {
				return nil
			}
			return o.check(ctx, r)
		})
	})
}

// errBusy says that another process is bringing content to its place.
var errBusy = errors.New("another process has the lock")

// put lets bring make the content at its place, under the place's lock, and names it. If the content is there
// by then, it calls spare instead.
func (o *object) put(ctx context.Context, waits bool, spare, bring func() error) error {
	for _, path := range []rooted.Path{o.place.path, o.place.lock} {
		if path.Name == "" {
			continue
		}
		if err := path.Parent().MkdirAll(); err != nil {
			return err
		}
	}
	if o.place.lock.Name != "" {
		locking, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if !waits {
			cancel(errBusy)
		}
		unlock, err := lockFile(locking, o.place.lock)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if _, err := os.Stat(o.place.path.String()); err == nil { // another process was first
		return errors.Join(spare(), o.linked())
	}
	if err := bring(); err != nil {
		return err
	}
	return o.linked()
}

// elsewhere opens the content in another cache of this machine that has it: ours, the Hub's, Ollama's. The names of the
// others' files are those programs' word: digests are compared, once for each file.
func (o *object) elsewhere(ctx context.Context, opts *Options) (*os.File, error) {
	if len(o.id) != 2*sha256.Size {
		return nil, fs.ErrNotExist
	}
	var paths []rooted.Path
	own, err := opts.ownPlace(o.id)
	if err == nil {
		paths = append(paths, own.path)
	}
	if store, err := ollamaStore(); err == nil {
		paths = append(paths, store.Join("blobs", "sha256-"+o.id))
	}
	if h, err := newHub(new(httprange.Options)); err == nil {
		for _, dir := range h.repositories() {
			paths = append(paths, dir.Join("blobs", o.id))
		}
	}
	for _, path := range paths {
		f, err := rooted.Regular(path.String())
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if err == nil && info.Size() == o.size {
			if path == own.path {
				return f, nil
			}
			if err = o.compare(ctx, f, info); err == nil {
				if !opts.NoCache { // so that no other process compares it again
					o.put(ctx, false, func() error { return nil }, func() error { return o.link(f) })
				}
				return f, nil
			}
		}
		f.Close()
		if err != nil && ctx.Err() == nil {
			opts.logger().Warn("file of another cache is not used", "file", path.String(), "reason", err)
		}
	}
	return nil, fs.ErrNotExist
}

// compared has the files whose digests this process has found to be right, by digest.
var compared sync.Map

// compare makes sure of the digest of a file in another cache, unless it was compared as it is.
func (o *object) compare(ctx context.Context, f *os.File, info fs.FileInfo) error {
	if seen, ok := compared.Load(o.id); ok && os.SameFile(seen.(fs.FileInfo), info) && seen.(fs.FileInfo).ModTime().Equal(info.ModTime()) {
		return nil
	}
	err := o.check(ctx, io.NewSectionReader(f, 0, o.size))
	if err == nil {
		compared.Store(o.id, info)
	}
	return err
}

// link gives the file of another cache the object's place, by a second name.
func (o *object) link(f *os.File) error {
	path, err := filepath.EvalSymlinks(f.Name())
	if err != nil {
		return err
	}
	return o.place.path.Link(path, f)
}

// adopt gives the content of a file that elsewhere has found its place here too: by a link, or as a copy on another file
// system.
func (f *file) adopt(ctx context.Context) error {
	if name := f.whole.Name(); name == f.place.path.String() || name == f.place.named {
		return nil
	}
	return f.put(ctx, true, func() error { return nil }, func() error {
		if f.link(f.whole) == nil {
			return nil
		}
		part, err := f.partOf(f.object, func(_ context.Context, p []byte, off int64) error {
			_, err := f.whole.ReadAt(p, off)
			return err
		}, func() string { return wholeVersion })
		if err != nil {
			return err
		}
		defer part.Close()
		if err := part.Fill(ctx, nil); err != nil {
			return err
		}
		return part.Finish(f.place.path, func(r io.Reader) error { return f.check(ctx, r) })
	})
}

// cacheDir returns the folder of what has no place in another program's cache.
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

// ownPlace returns the place of content that no other program's cache has one for.
func (o *Options) ownPlace(id string) (place, error) {
	cache, err := o.cache()
	return place{path: cache.Join("blobs", id), lock: cache.Join("locks", id+".lock"), own: true}, err
}

// cache returns the folder of what has no place in another program's cache.
func (o *Options) cache() (rooted.Path, error) {
	dir, err := o.cacheDir()
	return rooted.Path{Dir: dir}, err
}

// partialDir returns the folder of incomplete files whose final place is in the folder final, and
// makes it.
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

// sweptDirs are the folders that this process has freed of what others have left.
var sweptDirs sync.Map

// unlessUnwritable returns err, unless it says that a cache cannot be written to, which is read all the same.
func unlessUnwritable(err error) error {
	if sparse.Unwritable(err) {
		return nil
	}
	return err
}

// checkName makes sure that the name of a file in a folder leads out of no folder, and is safe to print.
func checkName(name string) error {
	if strings.ContainsFunc(name, controls) {
		return fmt.Errorf("%.80q, the name of a file, has control characters", name)
	}
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") || !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%.80q is no name of a file in a repository", name)
	}
	return nil
}

// controls reports whether a terminal may do something else than show the character: what controls it, the direction of
// text, or its lines.
func controls(c rune) bool {
	return unicode.In(c, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}
