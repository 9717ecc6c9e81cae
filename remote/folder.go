package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"github.com/tensormap/tensormap/remote/internal/sparse"
	"github.com/tensormap/tensormap/shard"
)

// folder is the files of one revision at an address: those of a commit, of a manifest, or under a prefix.
type folder struct {
	opts            *Options
	address         string                   // for messages
	addressedFile   string                   // that the address names, or a folder of them; "" for all
	messageName     func(file string) string // what messages call a file
	objects         map[string]object        // by their slash-separated names
	modelCandidates []string                 // the files that may be the model; nil for all
	// lookup finds a file that objects does not list. It is nil if they are all there are.
	lookup func(ctx context.Context, name string) (object, error)
	// pullsAllFiles makes Pull bring every file, not only those of the model. afterPull is called after that.
	pullsAllFiles bool
	afterPull     func() error
	// snapshotDir is where complete files have their names, or "" if they have none.
	snapshotDir rooted.Path
	// followsServer means that names in dir lead to what the server has now: their links are replaced.
	followsServer bool

	filling       *backgroundFill // nil without Options.Fill
	unpackedBytes int64           // bytes of archives of configuration
	listingBytes  listingSize     // by what layers and archives list

	mu               sync.Mutex
	partialsWithHead []*file  // incomplete files whose beginning was in the cache
	lookedUp         []string // names of files that lookup has found
}

// completePath returns the path of the file called name, once it is complete: its name in the snapshot, or else
// the path in the cache.
func (d *folder) completePath(name string) string {
	if d.snapshotDir.Name != "" {
		return d.snapshotPath(name).String()
	}
	return d.objects[name].paths.path.String()
}

// snapshotPath returns the path that gives a complete file its name.
func (d *folder) snapshotPath(name string) rooted.Path {
	return d.snapshotDir.Join(filepath.FromSlash(name))
}

// object returns the content of the file called name, which it may have to ask the server for. It fails with
// fs.ErrNotExist if the folder has no such file.
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

// chooseModel returns the name of the file to open as the model: the one that the address names, or the best one of the folder
// that it names. It fails if shard.Choose finds no model there, or several.
func (d *folder) chooseModel(ctx context.Context) (string, error) {
	if _, ok := d.objects[d.addressedFile]; ok {
		return d.addressedFile, nil
	}
	if len(d.modelCandidates) == 1 && d.addressedFile == "" {
		return d.modelCandidates[0], nil
	}
	var names []string // of files in the folder d.addressedFile
	for name := range d.objects {
		if path.Dir(name) == path.Clean("./"+d.addressedFile) {
			names = append(names, path.Base(name))
		}
	}
	if d.addressedFile != "" && len(names) == 0 { // not listed, but the server may have it
		_, err := d.object(ctx, d.addressedFile)
		return d.addressedFile, err
	}
	name, err := shard.Choose(d.filterCandidates(names), func(name string) *manifest.File {
		return d.manifest(ctx, path.Join(d.addressedFile, name))
	})
	if err != nil {
		return "", fmt.Errorf("%s: a repository with %w", d.address, err)
	}
	return path.Join(d.addressedFile, name), nil
}

// manifest returns the manifest in the file called name, or nil if the file cannot be read or is none.
func (d *folder) manifest(ctx context.Context, name string) *manifest.File {
	var m *manifest.File
	d.decode(ctx, name, func(_ layout.Input, decoded layout.File) error {
		m, _ = decoded.(*manifest.File)
		return nil
	})
	return m
}

// decode opens the file called name, decodes its index, and calls use with both. It does so once more if the cache had
// other bytes than the server. It fails if opening, decoding or use does.
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

// contextReader is a file whose reads end with ctx.
type contextReader struct {
	ctx context.Context
	*file
}

// ReadAt fills p with the file's bytes from off on, until the reader's context ends. The range must lie within the
// file. It fails if reading does.
func (b contextReader) ReadAt(p []byte, off int64) (int, error) {
	if err := b.readThroughCache(b.ctx, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// open opens the file called name: in this cache, in another, or on its server. For a file that d.objects lists it
// sends no request. It fails if there is no such file, or if a cache has a wrong one.
func (d *folder) open(ctx context.Context, name string) (*file, error) {
	o, err := d.object(ctx, name)
	if err != nil {
		return nil, err
	}
	return d.openObject(ctx, o, name)
}

// openObject opens the content o of the file called name. If its bytes are all present, and many, it begins to move them to
// their final path in the background. It fails if the cache has a wrong file for it, or if Pull cannot write to the cache.
func (d *folder) openObject(ctx context.Context, o object, name string) (*file, error) {
	f, err := d.openContent(ctx, o, name)
	switch {
	case err != nil:
	case f.complete != nil:
		f.presentAtOpen = uint64(f.Size())
	case f.partial != nil:
		f.presentAtOpen = uint64(f.partial.Have())
	}
	if err == nil && f.partial != nil && f.partial.Have() == o.size && o.size > maxMovedAtClose {
		f.finalize()
	}
	return f, err
}

// openContent opens the content o of the file called name: complete in a cache, incomplete in this one, or (without a
// cache) on the server. Its caller may release the file instead of closing it. It fails if the cache has a wrong file
// for it, or if Pull cannot write to the cache.
func (d *folder) openContent(ctx context.Context, o object, name string) (f *file, err error) {
	f = &file{folder: d, nameInFolder: name, object: o}
	if f.complete, err = o.openComplete(); err == nil {
		return f, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if f.complete, err = o.findInOtherCaches(ctx, d.opts); err == nil {
		return f, nil
	} else if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if d.opts.NoCache || o.id == "" {
		return f, nil
	}
	f.partial, err = d.partOf(o, f.fetchForCache, f.sourceVersion)
	// The disk is full, or another process removes or fills this file: all but Pull read on without a cache.
	if sparse.Unwritable(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, sparse.ErrOtherContent) {
		if d.opts.fresh {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
		d.opts.logFullCache(o.name)(err)
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.name, err)
	}
	if f.partial.Have() == 0 {
		// Another process may have completed the file, and moved it away, since this one looked for it.
		if f.complete, err = o.openComplete(); err == nil {
			f.partial.Remove() // an empty file that stays does no harm
			f.partial.Close()
			f.partial = nil
			return f, nil
		}
	}
	if f.partial.Has(0, f.headBytes()) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.partialsWithHead = append(d.partialsWithHead, f) // for removeMismatched
	}
	return f, nil
}

// partOf opens, or makes, the cache's incomplete file of the content o. fetch brings missing bytes. version tells
// which version they are of, and is ignored if the content's id does. It fails if the file cannot be made, or if a
// process has other content open under its name.
func (d *folder) partOf(o object, fetch sparse.Fetch, version func() string) (*sparse.File, error) {
	if o.origin == "" {
		version = nil
	}
	var asked *atomic.Int64
	if d.filling != nil { // the background fetch lets reads of all files go first
		asked = &d.filling.waitingReads
	}
	dir, err := d.opts.partialDir(o.paths.path.Parent())
	if err != nil && !sparse.Unwritable(err) {
		return nil, err
	}
	return sparse.Open(dir.Join(o.partialName()), sparse.Options{
		Size: o.size, Identity: o.partialName(), Name: o.name, Version: version,
		Fetch: fetch, OnFull: d.opts.logFullCache(o.name), WaitingReads: asked,
	})
}

// openModel opens the folder's model: by its path if all its files are complete in another program's cache, else file by file. With
// Options.Fill it then begins to fetch the rest in the background. It fails if there is no model, or if reading its files does.
func (d *folder) openModel(ctx context.Context) (*loader.Model, error) {
	name, err := d.chooseModel(ctx)
	if err != nil {
		return nil, err
	}
	if d.opts.Fill && !d.opts.NoCache {
		d.filling = new(backgroundFill)
	}
	f, err := d.open(ctx, name)
	if err != nil {
		return nil, err
	}
	if f.complete != nil && d.snapshotDir.Name != "" && !f.paths.isInOwnCache && d.hasCompleteSiblings(name) {
		m, err := loader.Open(d.completePath(name), d.opts.Loader)
		if !errors.Is(err, fs.ErrNotExist) { // or else some of its files are not complete
			f.Close()
			return m, err
		}
	}
	m, err := d.loadModel(ctx, f)
	if err == nil {
		d.filling.start(d.opts)
	}
	return m, err
}

// loadModel opens the model whose first file is f, which it closes. It tries once more if the cache had other bytes than the
// server has. If opening fails, f does not move to its final path in the cache.
func (d *folder) loadModel(ctx context.Context, f *file) (m *loader.Model, err error) {
	name := f.nameInFolder
	err = d.retryChanged(ctx, func() (err error) {
		if f == nil { // at the second try
			if d.filling != nil {
				d.filling = new(backgroundFill)
			}
			if f, err = d.open(ctx, name); err != nil {
				return err
			}
		}
		d.filling.addFile(f)
		f.failedToOpen.Store(true)
		m, err = loader.OpenFolder(ctx, newModelFolder(f), path.Base(name), d.opts.Loader)
		f.failedToOpen.Store(err != nil)
		f = nil
		return err
	})
	return m, err
}

// modelFolder is a folder as a model sees it: the files beside its first, of the same revision.
type modelFolder struct {
	*folder
	modelDir  string
	openFirst atomic.Pointer[file] // which is open already, until it is asked for
}

// newModelFolder returns the folder of f as the model sees it, which gets f when it asks for its name.
func newModelFolder(f *file) *modelFolder {
	b := &modelFolder{folder: f.folder, modelDir: path.Dir(f.nameInFolder)}
	b.openFirst.Store(f)
	return b
}

// Open opens the file called name beside the first. The first file itself, which is open already, it passes on once.
// It fails if there is no such file.
func (b *modelFolder) Open(ctx context.Context, name string) (loader.Stored, error) {
	name = path.Join(b.modelDir, name)
	if f := b.openFirst.Load(); f != nil && f.nameInFolder == name && b.openFirst.CompareAndSwap(f, nil) {
		return f.stored(), nil
	}
	f, err := b.open(ctx, name)
	if err != nil {
		return loader.Stored{}, err
	}
	b.filling.addFile(f)
	return f.stored(), nil
}

// retryChanged calls read, and once more if the cache had another version than the server, or another process has
// begun the file anew. It also does so if read finds a malformed file, and the cache had other bytes than the server.
// It fails if the last call does.
func (d *folder) retryChanged(ctx context.Context, read func() error) error {
	err := read()
	if errors.As(err, new(*layout.FormatError)) && d.removeMismatched(ctx) ||
		errors.Is(err, mmapio.ErrChanged) || errors.Is(err, sparse.ErrOtherContent) {
		return read()
	}
	return err
}

// removeMismatched compares the beginnings of the cache's incomplete files with those that their servers send, and removes
// the files that differ. It reports whether it removed one. Files that it cannot compare stay.
func (d *folder) removeMismatched(ctx context.Context) (removed bool) {
	d.mu.Lock()
	begun := d.partialsWithHead
	d.mu.Unlock()
	for _, o := range begun {
		if o.partial.Finished() {
			continue
		}
		f, err := d.openContent(ctx, o.object, o.nameInFolder)
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
		f.release()
	}
	return removed
}

// modelFiles opens the model that begins with the file called name, and lists its files by name. single reports that
// this file is the whole model. If the address names it, only files that opening has asked for are listed beside it.
// It fails if the model cannot be opened.
func (d *folder) modelFiles(ctx context.Context, name string) (names []string, single bool, err error) {
	f, err := d.open(ctx, name)
	if err != nil {
		return nil, false, err
	}
	m, err := d.loadModel(ctx, f)
	if err != nil {
		return nil, false, err
	}
	defer m.Close()
	names = append(slices.Clone(d.lookedUp), name) // such as config.json
	for _, file := range m.Files() {
		names = append(names, path.Join(path.Dir(name), path.Base(file.Path)))
	}
	if d.pullsAllFiles {
		names = slices.AppendSeq(names, maps.Keys(d.objects))
	} else if d.addressedFile != name || len(m.Files()) > 1 {
		names = append(names, d.siblings(name)...)
	}
	slices.Sort(names)
	return slices.Compact(names), len(m.Files()) == 1, nil
}

// opensAsFile reports whether a pulled model is opened by the file called name rather than by its folder: the address names
// that file, or only it may be the model. names are all files of the model; single means that it has one file of weights.
func (d *folder) opensAsFile(name string, names []string, single bool) bool {
	if d.modelCandidates != nil {
		return len(d.modelCandidates) == 1 && (d.pullsAllFiles || len(names) == 1) && !strings.HasSuffix(name, manifest.IndexSuffix)
	}
	return d.addressedFile == name && single
}

// siblings lists the files in the folder of the file called model that belong to it and are no weights: configuration,
// tokenizer, generation. It tells them by their suffixes. The config.json of a folder in that folder is one too:
// sentence-transformers says there how vectors are pooled.
func (d *folder) siblings(model string) (names []string) {
	for name := range d.objects {
		dir := path.Dir(name)
		switch ext := path.Ext(name); {
		case strings.Contains(name, manifest.IndexSuffix):
		case dir == path.Dir(model) && slices.Contains([]string{".json", ".txt", ".model", ".jinja", ".tiktoken", ".vocab", ".spm"}, ext),
			dir != "." && path.Dir(dir) == path.Dir(model) && path.Base(name) == "config.json":
			names = append(names, name)
		}
	}
	return names
}

// hasCompleteSiblings reports whether all files that belong to the file called model, such as its config.json, are complete
// and found by their names. A model that is opened by its path would go without the others.
func (d *folder) hasCompleteSiblings(model string) bool {
	return !slices.ContainsFunc(d.siblings(model), func(name string) bool {
		_, err := os.Stat(d.completePath(name))
		return err != nil
	})
}

// fetchFiles fetches the files called names, those of a model, one after the other, and moves them to their final paths.
// With Options.Loader.Trust their bytes are verified before. progress, if set, gets the bytes of all of them. It fails
// if a file cannot be fetched, verified or moved.
func (d *folder) fetchFiles(ctx context.Context, model string, names []string, progress func(have, total int64)) error {
	var before, total int64
	for _, name := range names {
		o, err := d.object(ctx, name)
		if err != nil {
			return err
		}
		total += o.size
	}
	for _, name := range names {
		var size int64
		err := d.retryChanged(ctx, func() (err error) {
			size, err = d.fetchFile(ctx, model, name, func(have, _ int64) {
				if progress != nil {
					progress(before+have, total)
				}
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", d.messageName(name), err)
		}
		if before += size; progress != nil {
			progress(before, total)
		}
	}
	return nil
}

// fetchFile fetches the file called name, which belongs to the file called model, and returns its size. With
// Options.Loader.Trust it verifies the bytes before they go into the cache. It fails if that or fetching does.
func (d *folder) fetchFile(ctx context.Context, model, name string, progress func(have, size int64)) (size int64, err error) {
	f, err := d.open(ctx, name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if by := d.opts.Loader.Trust; by != nil {
		s := f.stored()
		err = s.Verify(ctx, pathFromModel(model, name), by)
	}
	if err == nil {
		err = f.fetchRest(ctx, progress)
	}
	return f.Size(), err
}

// pathFromModel returns the path of the file called name from the folder of the file called model. If it is not below that
// folder, pathFromModel returns its base name.
func pathFromModel(model, name string) string {
	dir := path.Dir(model)
	if rest, ok := strings.CutPrefix(name, dir+"/"); ok || dir == "." {
		return rest
	}
	return path.Base(name)
}

// filterCandidates returns those of names that may be the model, which are all if d.modelCandidates is nil. Indexes of shards always may. It
// changes the list names.
func (d *folder) filterCandidates(names []string) []string {
	if d.modelCandidates == nil {
		return names
	}
	may := make(map[string]bool)
	for _, name := range d.modelCandidates {
		may[path.Base(name)] = true
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !may[name] && !strings.Contains(name, manifest.IndexSuffix)
	})
}
