package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// folder is the files of one revision at an address: the files of a commit, of a manifest, or under a prefix.
type folder struct {
	opts            *Options
	address         string            // without addressedFile, for messages
	addressedFile   string            // the file or the folder of files that the address names; "" for all
	objects         map[string]object // the listed files, by their slash-separated names
	modelCandidates []string          // the files that may be the model; nil for all
	// lookup finds a file that objects does not list. It is nil if objects has all files.
	lookup func(ctx context.Context, name string) (object, error)
	// pullsAllFiles makes Pull fetch every file, not only the files of the model. Pull calls afterPull, if set, in the end.
	pullsAllFiles bool
	afterPull     func() error
	snapshotDir   rooted.Path // the folder in which complete files have their names

	waitingReads  atomic.Int64 // reads of all files that wait for bytes: they go first
	unpackedBytes int64        // bytes of archives of configuration
	listingBytes  listingSize  // by what layers and archives list

	mu               sync.Mutex
	partialsWithHead []*file  // incomplete files whose beginning was in the cache
	lookedUp         []string // names of files that lookup has found
}

// newFolder returns an empty folder for the files at address. Complete files get links in the folder snapshots/SNAPSHOT of this module's
// cache.
func newFolder(o *Options, address, snapshot string) *folder {
	return &folder{opts: o, address: strings.TrimSuffix(address, "/"), objects: make(map[string]object), snapshotDir: o.cache.Join("snapshots", snapshot)}
}

// messageName returns what messages call the file or folder called name: its address. "" stands for the whole folder.
func (d *folder) messageName(name string) string { return strings.TrimSuffix(d.address+"/"+name, "/") }

// snapshotPath returns the path that the file called name has in the snapshot once it is complete.
func (d *folder) snapshotPath(name string) rooted.Path {
	return d.snapshotDir.Join(filepath.FromSlash(name))
}

// addFile adds content o to d.objects as the file called name, after d.place has set its paths in the cache. addFile fails if place does.
// It fails if name is taken by content of another id, or if both contents have no id. It also fails once all names of d need more than
// maxListingBytes bytes.
func (d *folder) addFile(name string, o object) error {
	o, err := d.place(name, o)
	if err == nil {
		err = d.listingBytes.addFile(name)
	}
	if err != nil {
		return err
	}
	if old, ok := d.objects[name]; ok && (old.id != o.id || o.id == "") { // contents without ids may differ
		return fmt.Errorf("two files called %s", name)
	}
	d.objects[name] = o
	return nil
}

// place returns o as the file called name, with the name for messages and the paths in this module's cache. o.paths.name becomes the path
// of the link in the snapshot, which is made later. If o.paths.path is set already, it stays. If o has no id, place leaves all of o.paths.
// place fails for a name that checkName refuses.
func (d *folder) place(name string, o object) (object, error) {
	if err := checkName(name); err != nil {
		return o, err
	}
	o.name = d.messageName(name)
	if o.id != "" {
		final := o.paths.path
		o.paths = d.opts.ownCachePaths(o.id)
		o.paths.name = d.snapshotPath(name)
		if final.Dir != "" {
			o.paths.path = final
		}
	}
	return o, nil
}

// object returns the content of the file called name. If d.objects lacks it, object calls d.lookup, which asks the server, and then adds
// name to d.lookedUp. object fails if the lookup does. Without d.lookup it returns fs.ErrNotExist for a file that d.objects lacks.
func (d *folder) object(ctx context.Context, name string) (object, error) {
	if o, ok := d.objects[name]; ok {
		return o, nil
	}
	if d.lookup != nil {
		o, err := d.lookup(ctx, name)
		if err == nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.lookedUp = append(d.lookedUp, name)
		}
		return o, err
	}
	return object{}, &fs.PathError{Op: "open", Path: d.messageName(name), Err: fs.ErrNotExist}
}

// decode opens the file called name, decodes its index, and calls use. in is the open file, and decoded its index. If the cache had other
// bytes than the server, decode does all of that once more: use may be called twice. decode fails if opening or decoding does, or if use
// fails.
func (d *folder) decode(ctx context.Context, name string, use func(in layout.Input, decoded layout.File) error) error {
	return d.retryChanged(ctx, func() error {
		f, err := d.open(ctx, name)
		if err != nil {
			return err
		}
		defer f.Close()
		in := mmapio.FromReaderAt(contextReader{ctx, f}, f.Size())
		decoded, err := formats.Decode(in, d.opts.Loader.Limits)
		if err == nil {
			err = use(in, decoded)
		}
		return err
	})
}

// contextReader reads a file through the cache, until ctx ends.
type contextReader struct {
	ctx context.Context
	*file
}

// ReadAt fills p with the file's bytes from off on, and returns len(p). It returns 0 and an error if reading them all fails, or if the
// reader's context ends.
func (b contextReader) ReadAt(p []byte, off int64) (int, error) {
	if err := b.readThroughCache(b.ctx, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// open opens the file called name: in this cache, in another, or on its server. It sends no request for a file that d.objects lists. It
// fails if there is no such file, or if it can neither be opened in a cache nor on its server.
func (d *folder) open(ctx context.Context, name string) (*file, error) {
	o, err := d.object(ctx, name)
	if err != nil {
		return nil, err
	}
	return d.openObject(ctx, o)
}

// openObject opens the content o. It opens a complete file of a cache if there is one, and else this cache's incomplete file. Without a
// cache, or if o has no id, the file is read from its server alone. An incomplete file that has all its bytes moves to its final path
// later. Close moves a small file; a goroutine in the background begins to move a larger one now. openObject fails if a cache has a file of
// another size for o, or if the incomplete file cannot be opened. It also fails when ctx ends.
func (d *folder) openObject(ctx context.Context, o object) (*file, error) {
	complete, err := o.openComplete()
	if errors.Is(err, fs.ErrNotExist) {
		complete, err = o.findInOtherCaches(ctx, d.opts)
	}
	f := &file{folder: d, object: o, complete: complete}
	switch {
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !d.opts.NoCache && o.id != "":
		if err := f.openIncomplete(); err != nil {
			return nil, err
		}
	}
	f.presentAtOpen = uint64(f.present())
	if f.partial != nil && f.present() == o.size && o.size > maxMovedAtClose {
		f.finalize()
	}
	return f, nil
}

// openIncomplete sets f.partial to the cache's incomplete file of f, which it makes if there is none. If another process has just completed
// the file, it sets f.complete instead. Three failures are errors for Pull alone: the cache cannot be written to, the file was removed, or
// another process has other content open there. For Open both fields then stay nil, and f is read from its server. openIncomplete fails for
// all other errors.
func (f *file) openIncomplete() (err error) {
	f.partial, err = f.incompleteFile(f.fetchForCache, f.sourceVersion)
	goesOnWithoutCache := rooted.Unwritable(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, sparse.ErrOtherContent)
	switch {
	case goesOnWithoutCache && f.opts.downloads == nil:
		f.opts.logFullCache(f.Name(), err)
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if f.partial.Have() == 0 {
		// Another process may have completed the file, and moved it away, since this one looked for it.
		if f.complete, err = f.openComplete(); err == nil {
			f.partial.Remove() // an empty file that stays does no harm
			f.partial.Close()
			f.partial = nil
			return nil
		}
	}
	if f.partial.Has(0, f.headBytes()) {
		f.folder.mu.Lock()
		defer f.folder.mu.Unlock()
		f.partialsWithHead = append(f.partialsWithHead, f) // for removeMismatched
	}
	return nil
}

// incompleteFile opens the cache's incomplete file of f, or makes one. fetch reads missing bytes. version returns the version of the bytes
// that fetch has read. If f has no origin, f.id was made of the version, so version is not used. If the folder cannot be written to, the
// file is opened for reading. incompleteFile fails with sparse.ErrOtherContent if a process has other content open there. It also fails if
// the file can neither be made nor read.
func (f *file) incompleteFile(fetch sparse.Fetch, version func() string) (*sparse.File, error) {
	if f.origin == "" {
		version = nil
	}
	dir, err := f.opts.partialDir(f.paths.path.Parent())
	if err != nil && !rooted.Unwritable(err) { // or else sparse.Open reads what is present
		return nil, err
	}
	return sparse.Open(dir.Join(f.ContentID()), sparse.Options{
		Size: f.Size(), Identity: f.ContentID(), Name: f.Name(), Version: version,
		Fetch: fetch, WaitingReads: &f.waitingReads, OnFull: func(reason error) { f.opts.logFullCache(f.Name(), reason) },
	})
}

// retryChanged calls read, once or twice, and returns the error of the last call. The second call follows one of three errors.
// mmapio.ErrChanged says that the cache had another version than the server. sparse.ErrOtherContent says that a process had other content
// open. After a *layout.FormatError, read is called again only if removeMismatched removes a file.
func (d *folder) retryChanged(ctx context.Context, read func() error) error {
	err := read()
	if errors.As(err, new(*layout.FormatError)) && d.removeMismatched(ctx) ||
		errors.Is(err, mmapio.ErrChanged) || errors.Is(err, sparse.ErrOtherContent) {
		return read()
	}
	return err
}

// removeMismatched compares the beginning of each incomplete file in d.partialsWithHead with what its server sends now. It removes the
// files whose beginnings differ. removed is true if it has removed one. Files that it cannot compare stay.
func (d *folder) removeMismatched(ctx context.Context) (removed bool) {
	d.mu.Lock()
	partials := d.partialsWithHead // openObject appends more below
	d.mu.Unlock()
	for _, old := range partials {
		if old.partial.Finished() {
			continue
		}
		f, err := d.openObject(ctx, old.object) // anew, as old may be closed
		if err != nil {
			continue
		}
		if f.partial != nil && f.partial.Has(0, f.headBytes()) {
			cached, now := make([]byte, f.headBytes()), make([]byte, f.headBytes())
			source, err := f.connectedSource(ctx)
			if err == nil {
				err = errors.Join(source.ReadAt(ctx, now, 0), f.partial.ReadAt(ctx, cached, 0))
			}
			if err == nil && !bytes.Equal(cached, now) || errors.Is(err, mmapio.ErrChanged) {
				d.opts.logger().Warn("incomplete file in the cache is not what its server has", "file", f.Name())
				removed = f.partial.Invalidate() == nil || removed
			}
		}
		f.Close()
	}
	return removed
}
