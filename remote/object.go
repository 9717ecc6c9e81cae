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

// partial returns the name of the incomplete file. Each origin has its own: what one server sends under a digest is not
// taken for what another one has.
func (o *object) partial() string {
	if o.origin == "" {
		return o.id
	}
	return identity(o.origin, o.id)
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

// ownPlace returns the place of content that no other program's cache has one for.
func (o *Options) ownPlace(id string) (place, error) {
	cache, err := o.cache()
	return place{path: cache.Join("blobs", id), lock: cache.Join("locks", id+".lock"), own: true}, err
}

// textObject returns an object that is text.
func textObject(content []byte) object {
	hex := digestOf(content)[len("sha256:"):]
	return object{
		size: int64(len(content)), id: hex, check: sha256Check(hex),
		connect: func(context.Context, string) (Source, error) { return text(content), nil },
	}
}
