package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/tensormap/tensormap/internal/contentid"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// object is the content of a file, which never changes: how to fetch it, and its paths in a cache.
type object struct {
	name string // for messages
	size int64
	// id names the content: a digest in hex, or what derivedID returns. It is "" for content that is not cached.
	id string
	// origin names the server that sends the content. It is "" if id was derived from the server's address. Until the content is
	// complete and its digest right, its bytes are only as true as this server.
	origin string
	// checkOriginal reads the content, which was made of other content, and checks the digest of that. It is nil for content
	// whose id is its digest, or that has none.
	checkOriginal func(ctx context.Context, r io.Reader) error
	// connect returns the source of missing bytes. ctx bounds connect itself, not the reads of the source. version is
	// "", or what versionOf returned for an earlier source of an object with an origin: reads of another version must
	// fail.
	connect func(ctx context.Context, version string) (Source, error)
	paths   cachePaths
}

// cachePaths are the paths that an object has in a cache once it is complete.
type cachePaths struct {
	path   rooted.Path // the final path
	name   rooted.Path // the path in a snapshot, a link to path; on a system without links, the Hub's has the content
	lock   rooted.Path // the file to lock while the content moves to path; its time tells when the content was last used, but in the Hub's cache
	isHubs bool        // the snapshot is in the Hub's cache, where links that lead to a file stay
}

// checkDigest reads the content from r, and returns layout.ErrChecksum unless its digest is right. It does nothing if the digest is
// unknown. It fails if reading does, or when ctx ends.
func (o *object) checkDigest(ctx context.Context, r io.Reader) error {
	switch {
	case o.checkOriginal != nil:
		return o.checkOriginal(ctx, r)
	case digestID.MatchString(o.id):
		return checkContent(ctx, r, o.id, o.size)
	}
	return nil
}

// ContentID returns a name that only this content has. The object's incomplete file in the cache has this name. Without an origin it is
// o.id. Otherwise it differs between origins: bytes that one server sends for an id never mix with another server's. It is "" for content
// without an id.
func (o *object) ContentID() string {
	if o.origin == "" || o.id == "" {
		return o.id
	}
	return derivedID(o.origin, o.id)
}

// openComplete opens the object's complete file at its path in the cache. In the Hub's cache, if no file is there, it opens the file at the
// path in a snapshot. If a snapshot lacks the link to the file, openComplete makes it. In this module's cache openComplete also tries to
// set the time of last use. It fails with fs.ErrNotExist if there is no file, or if PruneCache removes the file meanwhile. It also fails if
// the file has another size, or if the link cannot be made.
func (o *object) openComplete() (*os.File, error) {
	f, err := o.openSized(o.paths.path)
	if errors.Is(err, fs.ErrNotExist) && o.paths.isHubs {
		f, err = o.openSized(o.paths.name)
	}
	if err != nil {
		return nil, err
	}
	err = o.linkName()
	if err == nil && !o.paths.isHubs {
		if !sparse.LockUntilClosed(f, f.Name()) { // PruneCache has removed it
			err = &fs.PathError{Op: "open", Path: f.Name(), Err: fs.ErrNotExist}
		}
		o.paths.lock.Touch() // PruneCache reads this time as the time of last use
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openSized opens the file at path for reading. It fails if the file does not exist, is no regular file, or has another size than the
// object.
func (o *object) openSized(path rooted.Path) (*os.File, error) {
	f, err := rooted.OpenRegular(path.String())
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != o.size {
		err = fmt.Errorf("%s has %d bytes, not %d: remove it", path, info.Size(), o.size)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// linkName makes a relative symbolic link to o.paths.path at o.paths.name, in place of any other link or file there. It does nothing if
// o.paths.name is not set. In the Hub's cache it also does nothing if a link there leads to a file. If the cache's folder has no
// CACHEDIR.TAG, linkName makes one. It fails if the system does, but not in a cache that cannot be written to.
func (o *object) linkName() error {
	link := o.paths.name
	if _, err := os.Stat(link.String()); link.Name == "" || err == nil && o.paths.isHubs {
		return nil
	}
	relative, err := filepath.Rel(link.Parent().String(), o.paths.path.String())
	if err != nil {
		return err
	}
	if now, err := os.Readlink(link.String()); err == nil && now == relative {
		return nil
	}
	tag := rooted.Path{Dir: link.Dir, Name: "CACHEDIR.TAG"} // as huggingface_hub does, for backup programs (bford.info/cachedir)
	if _, err = os.Lstat(tag.String()); errors.Is(err, fs.ErrNotExist) {
		err = tag.Write([]byte("Signature: 8a477f597d28d172789f06886806bc55\n"))
	}
	if err == nil {
		err = link.Symlink(relative)
	}
	return ignoreUnwritable(err)
}

// errBusy says that another process has the lock of an object's path in the cache.
var errBusy = errors.New("another process has the lock")

// tryLock is a context for createUnderLock that does not wait.
var tryLock = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errBusy)
	return ctx
}()

// createUnderLock locks the object's path in the cache, as huggingface_hub does. If no file is at the path, it calls create, which must
// make that file. It then makes the link in the snapshot. While another process has the lock, createUnderLock waits. When lockCtx ends, it
// fails with the cause of lockCtx: with errBusy at once if lockCtx is tryLock. It also fails if create or making the link does. On a file
// system without locks it locks nothing.
func (o *object) createUnderLock(lockCtx context.Context, create func() error) error {
	for _, path := range []rooted.Path{o.paths.path, o.paths.lock} {
		if err := path.Parent().MkdirAll(); err != nil {
			return err
		}
	}
	f, err := o.paths.lock.Open(os.O_RDWR | os.O_CREATE)
	if err != nil {
		return err
	}
	defer f.Close() // unlocks it; the file stays
	for !rooted.TryLock(f) {
		select {
		case <-lockCtx.Done():
			return context.Cause(lockCtx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if _, err := os.Stat(o.paths.path.String()); err != nil {
		if err := create(); err != nil {
			return err
		}
	}
	return o.linkName()
}

// ownCachePaths returns the paths of the content called id in this module's cache.
func (o *Options) ownCachePaths(id string) cachePaths {
	return cachePaths{path: o.cache.Join("blobs", id), lock: o.cache.Join("locks", id+".lock")}
}

// textObject returns an object whose content is in memory. Its id is the SHA-256 of the content.
func textObject(content []byte) object {
	return object{
		size: int64(len(content)), id: digest.FromBytes(content).Encoded(),
		connect: func(context.Context, string) (Source, error) { return headThenRange{head: content}, nil },
	}
}

// checkContent reads content of size bytes from r, and compares its digest with id, a SHA-256 or git's digest of a file. It returns
// layout.ErrChecksum if the two differ. It fails if id has another form, if reading does, or when ctx ends.
func checkContent(ctx context.Context, r io.Reader, id string, size int64) error {
	form, err := contentid.Parse(id)
	if err != nil {
		return err
	}
	h := form.Hash(uint64(size))
	if _, err := io.Copy(&parallel.Writer{Ctx: ctx, W: h}, r); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != id {
		return fmt.Errorf("%w: its digest is %s, not %s", layout.ErrChecksum, got, id)
	}
	return nil
}

// ollamaStore returns the folder in which Ollama has its models: $OLLAMA_MODELS, else ~/.ollama/models. It fails if there is no home
// directory.
func ollamaStore() (rooted.Path, error) {
	if dir := os.Getenv("OLLAMA_MODELS"); dir != "" {
		return rooted.Path{Dir: dir}, nil
	}
	home, err := os.UserHomeDir()
	return rooted.Path{Dir: filepath.Join(home, ".ollama", "models")}, err
}

// findInOtherCaches opens the object's content in a cache of this machine that has it: this module's, Ollama's or the Hub's. It checks the
// digest of a file that another program has made. Unless opts.NoCache is set, it then tries to make a hard link to that file at the
// object's path. It skips files that it cannot open. It skips and logs files whose digest is wrong or cannot be checked. findInOtherCaches
// returns fs.ErrNotExist if no cache has the content, if o.id is no SHA-256, or when ctx ends.
func (o *object) findInOtherCaches(ctx context.Context, opts *Options) (*os.File, error) {
	if len(o.id) != 2*sha256.Size {
		return nil, fs.ErrNotExist
	}
	if f, err := o.openSized(opts.ownCachePaths(o.id).path); err == nil {
		return f, nil
	}
	var paths []rooted.Path
	if store, err := ollamaStore(); err == nil {
		paths = append(paths, store.Join("blobs", "sha256-"+o.id))
	}
	if h, err := newHub(opts); err == nil {
		for _, dir := range h.repositories() {
			paths = append(paths, dir.Join("blobs", o.id))
		}
	}
	for _, path := range paths {
		f, err := o.openSized(path)
		if err != nil {
			continue
		}
		if err = o.checkForeignDigest(ctx, f); err == nil {
			if !opts.NoCache { // so that no other process checks the digest again
				o.createUnderLock(tryLock, func() error { return o.paths.path.Link(f) })
			}
			return f, nil
		}
		f.Close()
		if ctx.Err() == nil {
			opts.logger().Warn("file of another cache is not used", "file", path.String(), "reason", err)
		}
	}
	return nil, fs.ErrNotExist
}

// checkedForeign has the files of other caches whose digests this process has found right: a fs.FileInfo by digest.
var checkedForeign sync.Map

// checkForeignDigest checks that f, a file in another program's cache, has the digest o.id. checkedForeign remembers, for each id, the last
// file that had the digest. If f is that file and has the same time, checkForeignDigest does nothing. It returns layout.ErrChecksum for
// another digest. It also fails if f cannot be read, or when ctx ends.
func (o *object) checkForeignDigest(ctx context.Context, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if seen, ok := checkedForeign.Load(o.id); ok {
		if checked := seen.(fs.FileInfo); os.SameFile(checked, info) && checked.ModTime().Equal(info.ModTime()) {
			return nil
		}
	}
	err = o.checkDigest(ctx, io.NewSectionReader(f, 0, o.size))
	if err == nil {
		checkedForeign.Store(o.id, info)
	}
	return err
}
