package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

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

// cachePaths are the paths that an object has in a cache once it is complete, or some of them.
type cachePaths struct {
	path         rooted.Path  // the final path
	snapshotName string       // the path of the file's name in a snapshot, or "": on a system without links, it has the content
	lock         rooted.Path  // the file to lock while the content moves to path, or the zero Path
	isInOwnCache bool         // path is in this module's cache; the time of lock tells when it was last used
	link         func() error // makes the file's name in a snapshot lead to path, or nil
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

// partialName returns the name of the object's incomplete file in the cache. It differs between origins: bytes that one server sends
// under a digest are not mixed with another server's.
func (o *object) partialName() string {
	if o.origin == "" {
		return o.id
	}
	return derivedID(o.origin, o.id)
}

// openComplete opens the object's complete file: at its path in the cache, or else at its path in a snapshot. If the link in the snapshot
// is missing, it makes it. In this module's cache it tries to set the time of last use.
//
// openComplete fails with fs.ErrNotExist if there is no file, or if PruneCache removes it meanwhile. It also fails if the file has another
// size, or if the link cannot be made.
func (o *object) openComplete() (*os.File, error) {
	f, err := o.openSized(o.paths.path.String())
	if errors.Is(err, fs.ErrNotExist) && o.paths.snapshotName != "" {
		f, err = o.openSized(o.paths.snapshotName)
	}
	if err != nil {
		return nil, err
	}
	err = o.linkName()
	if err == nil && o.paths.isInOwnCache {
		if !sparse.LockUntilClosed(f, f.Name()) { // PruneCache has removed it
			err = &fs.PathError{Op: "open", Path: f.Name(), Err: fs.ErrNotExist}
		}
		o.paths.lock.Touch() // PruneCache reads this time as that of last use
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openSized opens the file at path for reading. It fails if the file does not exist, is no regular file, or has another size than the
// object.
func (o *object) openSized(path string) (*os.File, error) {
	f, err := rooted.OpenRegular(path)
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

// linkName calls o.paths.link, if set, which makes a link in a snapshot. It ignores the error of a cache that cannot be written to, and
// fails with other errors.
func (o *object) linkName() error {
	if o.paths.link == nil {
		return nil
	}
	return ignoreUnwritable(o.paths.link())
}

// moveToFinalPath checks the digest of the incomplete file, whose bytes are all present, and renames the file to its final path in the
// cache. If another process has made a file there meanwhile, it removes the incomplete one instead. It fails for a wrong digest, or if the
// cache cannot be written to. If lock is tryLock, it fails with errBusy if another process has the lock of the path. Otherwise it waits
// until ctx ends.
func (f *file) moveToFinalPath(ctx context.Context, lock locking) error {
	return f.createUnderLock(ctx, lock, f.partial.Remove, func() error {
		return f.partial.Finish(f.paths.path, func(r io.Reader) error {
			return f.checkDigest(ctx, r)
		})
	})
}

// locking says what to do if another process has the lock of an object's path in the cache.
type locking int

const (
	waitForLock locking = iota // until the context ends
	tryLock                    // fail with errBusy
)

// discardNothing returns nil. It is the argument discard of createUnderLock for callers that have begun no file.
func discardNothing() error { return nil }

// errBusy says that another process has the lock of an object's path in the cache.
var errBusy = errors.New("another process has the lock")

// createUnderLock locks the object's path in the cache, and calls create, which must make the file there. It then makes the link in the
// snapshot. If another process has made the file already, it calls discard in place of create. While another process has the lock, it waits
// until ctx ends. If lock is tryLock, it instead fails with errBusy at once. It also fails if create, discard, or making the link does.
func (o *object) createUnderLock(ctx context.Context, lock locking, discard, create func() error) error {
	for _, path := range []rooted.Path{o.paths.path, o.paths.lock} {
		if path.Name == "" { // the object has no lock
			continue
		}
		if err := path.Parent().MkdirAll(); err != nil {
			return err
		}
	}
	if o.paths.lock.Name != "" {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if lock == tryLock {
			cancel(errBusy) // lockFile tries once even so, and fails with errBusy if another process has the lock
		}
		unlock, err := lockFile(ctx, o.paths.lock)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if _, err := os.Stat(o.paths.path.String()); err == nil { // another process was first
		return errors.Join(discard(), o.linkName())
	}
	if err := create(); err != nil {
		return err
	}
	return o.linkName()
}

// hardLink makes the object's path in the cache a hard link to f, an open file of another cache. It fails if f's path leads to another
// file by now, if f is on another file system, or if the cache is read-only.
func (o *object) hardLink(f *os.File) error {
	path, err := filepath.EvalSymlinks(f.Name())
	if err != nil {
		return err
	}
	return o.paths.path.Link(path, f)
}

// linkOrCopyToOwnPath makes f.complete, an open file, available at f's own path in the cache too. It may lie in another program's cache. It
// makes a hard link, or else a copy, and checks the copy's digest. It does nothing if f.complete was opened at that path, or at its name in
// a snapshot. It fails if neither link nor copy can be made, or with layout.ErrChecksum for a wrong digest.
func (f *file) linkOrCopyToOwnPath(ctx context.Context) error {
	if name := f.complete.Name(); name == f.paths.path.String() || name == f.paths.snapshotName {
		return nil
	}
	return f.createUnderLock(ctx, waitForLock, discardNothing, func() error {
		if f.hardLink(f.complete) == nil {
			return nil
		}
		// No hard link can be made, as on another file system: copy.
		readComplete := func(_ context.Context, p []byte, off int64) error {
			_, err := f.complete.ReadAt(p, off)
			return err
		}
		part, err := f.incompleteFile(f.object, readComplete, func() string { return completeVersion }) // one version: f is complete
		if err != nil {
			return err
		}
		defer part.Close()
		if err := part.Fill(ctx, nil); err != nil {
			return err
		}
		return part.Finish(f.paths.path, func(r io.Reader) error { return f.checkDigest(ctx, r) })
	})
}

// ownCachePaths returns the paths of the content called id in this module's cache. It fails if there is no home directory.
func (o *Options) ownCachePaths(id string) (cachePaths, error) {
	cache, err := o.cache()
	return cachePaths{path: cache.Join("blobs", id), lock: cache.Join("locks", id+".lock"), isInOwnCache: true}, err
}

// textObject returns an object whose content is in memory. Its id is the SHA-256 of the content.
func textObject(content []byte) object {
	return object{
		size: int64(len(content)), id: digestHex(digestOf(content)),
		connect: func(context.Context, string) (Source, error) { return memorySource(content), nil },
	}
}
