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

// object is content that never changes, with its source and its place in a cache.
type object struct {
	name string // for messages
	size int64
	// id names the content: a digest in hex, or what identity returns.
	id string
	// origin names the server that sends the content, unless id does. Until the content is complete and its digest
	// right, its bytes are only as true as this server.
	origin string
	// check reads the content, and returns an error unless its digest is right. It is nil if there is no digest.
	check func(ctx context.Context, r io.Reader) error
	// connect returns the source of missing bytes. ctx bounds connect itself, not the reads of the source. version is
	// "", or what versionOf returned for an earlier source of an object with an origin: reads of another version must
	// fail.
	connect func(ctx context.Context, version string) (Source, error)
	place   place
}

// place is where the cache has an object once it is complete.
type place struct {
	path  rooted.Path
	named string       // the path of the file's name in a snapshot, or "": where there are no links, it has the content
	lock  rooted.Path  // the file to lock while the content moves to path, or none
	own   bool         // the place is in this module's cache; the time of lock tells when it was last used
	link  func() error // makes the file's name in a snapshot lead to path, or nil
}

// partial returns the name of the incomplete file. Each origin has its own: bytes that one server sends under a
// digest are not mixed with another server's.
func (o *object) partial() string {
	if o.origin == "" {
		return o.id
	}
	return identity(o.origin, o.id)
}

// find opens the object's complete file: at its path in the cache, or else under its name in a snapshot. It makes the
// link of that name if it is missing. The error is fs.ErrNotExist if there is no file, and another one if the file has
// another size.
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
		err = o.linkName()
	}
	if err == nil && o.place.own {
		if !sparse.Hold(f, f.Name()) { // PruneCache has removed it meanwhile
			err = &fs.PathError{Op: "open", Path: f.Name(), Err: fs.ErrNotExist}
		}
		o.place.lock.Touch() // its time tells when the object was last used
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// linkName makes the object's name in a snapshot lead to the complete file. It does nothing if the object has no such
// name, or if the cache cannot be written to.
func (o *object) linkName() error {
	if o.place.link == nil {
		return nil
	}
	return unlessUnwritable(o.place.link())
}

// move checks the digest of f, whose bytes are all present, and renames its incomplete file to the object's path in the
// cache. If another process has the lock of that path, move waits, or returns errBusy if waits is false.
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

// errBusy says that another process has the lock of an object's path in the cache.
var errBusy = errors.New("another process has the lock")

// put locks the object's path in the cache, calls create to make the file there, and links its name in the snapshot. If
// another process has made the file meanwhile, put calls discard instead of create. See move for waits.
func (o *object) put(ctx context.Context, waits bool, discard, create func() error) error {
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
			cancel(errBusy) // lockFile then tries once, and fails with errBusy if another process has the lock
		}
		unlock, err := lockFile(locking, o.place.lock)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if _, err := os.Stat(o.place.path.String()); err == nil { // another process was first
		return errors.Join(discard(), o.linkName())
	}
	if err := create(); err != nil {
		return err
	}
	return o.linkName()
}

// link makes the object's path in the cache a hard link to f, an open file of another cache. It fails if f's path leads
// to another file by now, or to another file system.
func (o *object) link(f *os.File) error {
	path, err := filepath.EvalSymlinks(f.Name())
	if err != nil {
		return err
	}
	return o.place.path.Link(path, f)
}

// adopt makes f.whole, a complete file that was found in another cache, the file at f's own path in the cache too: by a
// hard link, or else as a copy, whose digest it checks.
func (f *file) adopt(ctx context.Context) error {
	if name := f.whole.Name(); name == f.place.path.String() || name == f.place.named {
		return nil
	}
	return f.put(ctx, true /* wait for the lock */, func() error { return nil }, func() error {
		if f.link(f.whole) == nil {
			return nil
		}
		// No hard link can be made, as on another file system: copy.
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

// ownPlace returns the paths of the content called id in this module's cache. It fails if there is no home directory.
func (o *Options) ownPlace(id string) (place, error) {
	cache, err := o.cache()
	return place{path: cache.Join("blobs", id), lock: cache.Join("locks", id+".lock"), own: true}, err
}

// textObject returns an object whose content is in memory: its source sends no request.
func textObject(content []byte) object {
	hex := digestOf(content)[len("sha256:"):]
	return object{
		size: int64(len(content)), id: hex, check: sha256Check(hex),
		connect: func(context.Context, string) (Source, error) { return text(content), nil },
	}
}
