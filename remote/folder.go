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
	addressedFile   string                   // the file or the folder of files that the address names; "" for all
	messageName     func(file string) string // returns what messages call a file
	objects         map[string]object        // the listed files, by their slash-separated names
	modelCandidates []string                 // the files that may be the model; nil for all
	// lookup finds a file that objects does not list. It is nil if objects has all files.
	lookup func(ctx context.Context, name string) (object, error)
	// pullsAllFiles makes Pull fetch every file, not only those of the model. Pull calls afterPull, if set, in the end.
	pullsAllFiles bool
	afterPull     func() error
	// snapshotDir is the folder in which complete files have their names, or the zero Path if they have none.
	snapshotDir rooted.Path
	// followsServer means that names in snapshotDir lead to what the server has now: their links are replaced.
	followsServer bool

	filling       *backgroundFill // nil without Options.Fill
	unpackedBytes int64           // bytes of archives of configuration
	listingBytes  listingSize     // by what layers and archives list

	mu               sync.Mutex
	partialsWithHead []*file  // incomplete files whose beginning was in the cache
	lookedUp         []string // names of files that lookup has found
}

// completePath returns the path that the file called name has once it is complete: in the snapshot, or without one in the cache. d.objects
// must have the name then.
func (d *folder) completePath(name string) string {
	if d.snapshotDir.Name != "" {
		return d.snapshotPath(name).String()
	}
	return d.objects[name].paths.path.String()
}

// snapshotPath returns the path of the file called name in the folder d.snapshotDir.
func (d *folder) snapshotPath(name string) rooted.Path {
	return d.snapshotDir.Join(filepath.FromSlash(name))
}

// object returns the content of the file called name: the one in d.objects, or else what d.lookup finds on the server. After a lookup it
// adds name to d.lookedUp. It fails if the lookup does. Without d.lookup it returns fs.ErrNotExist for a file that is not in d.objects.
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

// chooseModel returns the name of the file to open as the model. If d.addressedFile names a file, it returns that name. If d.addressedFile
// is "" and there is one candidate, it returns the candidate. Otherwise d.addressedFile is a folder, and shard.Choose chooses in it.
// chooseModel fails if the folder has no model, or several. It also fails if the file or folder does not exist.
func (d *folder) chooseModel(ctx context.Context) (string, error) {
	if _, ok := d.objects[d.addressedFile]; ok {
		return d.addressedFile, nil
	}
	if len(d.modelCandidates) == 1 && d.addressedFile == "" {
		return d.modelCandidates[0], nil
	}
	var names []string // of files in the folder d.addressedFile
	for name := range d.objects {
		if path.Dir(name) == path.Clean("./"+d.addressedFile) { // "." for ""
			names = append(names, path.Base(name))
		}
	}
	if d.addressedFile != "" && len(names) == 0 { // neither file nor folder is listed, but the server may have the file
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

// manifest returns the manifest in the file called name, or nil if the file cannot be read or is no manifest.
func (d *folder) manifest(ctx context.Context, name string) *manifest.File {
	var m *manifest.File
	d.decode(ctx, name, func(_ layout.Input, decoded layout.File) error {
		m, _ = decoded.(*manifest.File)
		return nil
	})
	return m
}

// decode opens the file called name, decodes its index, and calls use with the open file and the decoded one. If the cache had other bytes
// than the server, decode begins anew once: use may be called twice. It fails if opening or decoding does, or if use fails.
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
// fails if there is no such file, or as openObject does.
func (d *folder) open(ctx context.Context, name string) (*file, error) {
	o, err := d.object(ctx, name)
	if err != nil {
		return nil, err
	}
	return d.openObject(ctx, o, name)
}

// openObject opens the content o as the file called name, and counts the bytes that are present. An incomplete file that has all its bytes
// moves to its final path: a small one when it is closed, a larger one in the background from now on. openObject fails as openContent does.
func (d *folder) openObject(ctx context.Context, o object, name string) (*file, error) {
	f, err := d.openContent(ctx, o, name)
	if err != nil {
		return nil, err
	}
	switch {
	case f.complete != nil:
		f.presentAtOpen = uint64(f.Size())
	case f.partial != nil:
		f.presentAtOpen = uint64(f.partial.Have())
		if f.partial.Have() == o.size && o.size > maxMovedAtClose {
			f.finalize()
		}
	}
	return f, nil
}

// openContent opens the content o as the file called name. It opens a complete file of a cache if there is one, and else this cache's
// incomplete one. Without a cache, or if o has no id, the file is read from its server alone. openContent fails if a cache has a file of
// another size for o, or if the incomplete file cannot be opened. It also fails when ctx ends.
func (d *folder) openContent(ctx context.Context, o object, name string) (f *file, err error) {
	f = &file{folder: d, nameInFolder: name, object: o}
	f.complete, err = o.openComplete()
	if errors.Is(err, fs.ErrNotExist) {
		f.complete, err = o.findInOtherCaches(ctx, d.opts)
	}
	switch {
	case err == nil:
		return f, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case d.opts.NoCache || o.id == "":
		return f, nil
	}
	if err := f.openIncomplete(); err != nil {
		return nil, err
	}
	return f, nil
}

// openIncomplete sets f.partial to the cache's incomplete file of f, which it makes if there is none. If another process has completed that
// file meanwhile, it sets f.complete instead.
//
// For Open, three failures are no error: the cache cannot be written to, the file was removed, or another process has other content open
// there. Both fields then stay nil, and f is read from its server. Pull fails for them. openIncomplete fails for all other errors.
func (f *file) openIncomplete() (err error) {
	f.partial, err = f.incompleteFile(f.object, f.fetchForCache, f.sourceVersion)
	goesOnWithoutCache := sparse.Unwritable(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, sparse.ErrOtherContent)
	switch {
	case goesOnWithoutCache && !f.opts.isPull:
		f.opts.logFullCache(f.Name())(err)
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

// incompleteFile opens the cache's incomplete file of the content o, or makes it. fetch reads missing bytes, and version returns the
// version of what fetch has read. If o has no origin, o.id was made of the version, and version is not used. If the folder cannot be
// written to, the file is opened for reading.
//
// incompleteFile fails with sparse.ErrOtherContent if a process has other content open there. It also fails if the file can neither be made
// nor read.
func (d *folder) incompleteFile(o object, fetch sparse.Fetch, version func() string) (*sparse.File, error) {
	if o.origin == "" {
		version = nil
	}
	var waitingReads *atomic.Int64
	if d.filling != nil { // the background fetch lets reads of all files go first
		waitingReads = &d.filling.waitingReads
	}
	dir, err := d.opts.partialDir(o.paths.path.Parent())
	if err != nil && !sparse.Unwritable(err) { // or else sparse.Open reads what is present
		return nil, err
	}
	return sparse.Open(dir.Join(o.partialName()), sparse.Options{
		Size: o.size, Identity: o.partialName(), Name: o.name, Version: version,
		Fetch: fetch, OnFull: d.opts.logFullCache(o.name), WaitingReads: waitingReads,
	})
}

// openModel opens the folder's model. If all its files are complete in another program's cache, it opens them there by path. Otherwise it
// opens file by file. With Options.Fill and a cache, it then begins to fetch their missing bytes in the background. It fails if there is no
// model, or if opening it does.
func (d *folder) openModel(ctx context.Context) (*loader.Model, error) {
	name, err := d.chooseModel(ctx)
	if err != nil {
		return nil, err
	}
	if d.opts.Fill && !d.opts.NoCache { // opening adds its files; start comes when it has succeeded
		d.filling = new(backgroundFill)
	}
	f, err := d.open(ctx, name)
	if err != nil {
		return nil, err
	}
	isInForeignSnapshot := f.complete != nil && d.snapshotDir.Name != "" && !f.paths.isInOwnCache
	if isInForeignSnapshot && d.hasCompleteSiblings(name) {
		m, err := loader.Open(d.completePath(name), d.opts.Loader)
		if !errors.Is(err, fs.ErrNotExist) {
			f.Close()
			return m, err
		}
		// Some of its files are not complete: open it file by file.
	}
	m, err := d.loadModel(ctx, f)
	if err == nil {
		d.filling.start(d.opts)
	}
	return m, err
}

// loadModel opens the model whose first file is f. It takes over f: the model closes it in the end, or loadModel at once after an error. If
// the cache had other bytes than the server, loadModel opens file and model once more. A file from which no model could be opened gets no
// final path in the cache.
func (d *folder) loadModel(ctx context.Context, f *file) (m *loader.Model, err error) {
	name := f.nameInFolder
	err = d.retryChanged(ctx, func() (err error) {
		if f == nil { // this is the second try: the first has closed f
			if d.filling != nil { // it has the closed file
				d.filling = new(backgroundFill)
			}
			if f, err = d.open(ctx, name); err != nil {
				return err
			}
		}
		d.filling.addFile(f)
		f.failedToOpen.Store(true) // for Close, which OpenFolder calls if it fails: settle then removes f
		files := &modelFolder{folder: d, modelDir: path.Dir(name)}
		files.openFirst.Store(f)
		m, err = loader.OpenFolder(ctx, files, path.Base(name), d.opts.Loader)
		f.failedToOpen.Store(err != nil)
		f = nil
		return err
	})
	return m, err
}

// modelFolder is the folder from which a model opens its files: those beside its first, of the same revision.
type modelFolder struct {
	*folder
	modelDir  string               // the names of the model's files begin with it
	openFirst atomic.Pointer[file] // the first file, which is open already; nil once Open has returned it
}

// Open opens the file called name, which lies beside the model's first file. The first file itself is open already: the first call with its
// name returns it. Open fails as folder.open does.
func (b *modelFolder) Open(ctx context.Context, name string) (loader.FolderFile, error) {
	name = path.Join(b.modelDir, name)
	if f := b.openFirst.Load(); f != nil && f.nameInFolder == name && b.openFirst.CompareAndSwap(f, nil) {
		return f.stored(), nil
	}
	f, err := b.open(ctx, name)
	if err != nil {
		return loader.FolderFile{}, err
	}
	b.filling.addFile(f)
	return f.stored(), nil
}

// retryChanged calls read, and returns the error of the last call. It calls read once more after mmapio.ErrChanged, by which the cache had
// another version than the server, and after sparse.ErrOtherContent. It also does so after a *layout.FormatError if removeMismatched
// removes a file.
func (d *folder) retryChanged(ctx context.Context, read func() error) error {
	err := read()
	if errors.As(err, new(*layout.FormatError)) && d.removeMismatched(ctx) ||
		errors.Is(err, mmapio.ErrChanged) || errors.Is(err, sparse.ErrOtherContent) {
		return read()
	}
	return err
}

// removeMismatched compares the beginnings of incomplete files in the cache with what their servers send now. d.partialsWithHead lists the
// files. It removes the files that differ, and reports whether it removed one. Files that it cannot compare stay.
func (d *folder) removeMismatched(ctx context.Context) (removed bool) {
	d.mu.Lock()
	partials := d.partialsWithHead // openContent appends more below
	d.mu.Unlock()
	for _, old := range partials {
		if old.partial.Finished() {
			continue
		}
		f, err := d.openContent(ctx, old.object, old.nameInFolder) // anew, as old may be closed
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

// modelFiles returns the sorted names of all files to pull for the model whose first file is called name. To find them it opens the model,
// and closes it. They are the model's files of weights, and all files that d has looked up so far. With d.pullsAllFiles they are all files
// of the folder too. Without, the first file's siblings are among them, unless the address names that file and it has all weights.
//
// hasOneFile is true if one file has all weights. modelFiles fails if the model cannot be opened.
func (d *folder) modelFiles(ctx context.Context, name string) (names []string, hasOneFile bool, err error) {
	f, err := d.open(ctx, name)
	if err != nil {
		return nil, false, err
	}
	m, err := d.loadModel(ctx, f) // closes f
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

// opensAsFile reports whether a pulled model is opened by its first file, called name, rather than by its folder. names and hasOneFile are
// what modelFiles has returned for it. If d.modelCandidates is nil, it is so if the address names the file, which has all weights.
// Otherwise it is so if the file is the only candidate and needs no other file.
func (d *folder) opensAsFile(name string, names []string, hasOneFile bool) bool {
	if d.modelCandidates == nil {
		return d.addressedFile == name && hasOneFile
	}
	isOnlyCandidate := len(d.modelCandidates) == 1 && !strings.HasSuffix(name, manifest.IndexSuffix) // an index needs its shards
	needsNoOther := len(names) == 1 || d.pullsAllFiles                                               // which brings licenses and the like
	return isOnlyCandidate && needsNoOther
}

// siblings returns the names of the files beside the file called model that belong to it and are no weights: configuration, tokenizer,
// generation. It tells them by their suffixes, and leaves out indexes of shards. It also returns each config.json one folder below:
// sentence-transformers says there how vectors are pooled.
func (d *folder) siblings(model string) (names []string) {
	for name := range d.objects {
		dir := path.Dir(name)
		switch ext := path.Ext(name); {
		case strings.Contains(name, manifest.IndexSuffix): // it ends in .json, and is no configuration
		case dir == path.Dir(model) && slices.Contains([]string{".json", ".txt", ".model", ".jinja", ".tiktoken", ".vocab", ".spm"}, ext),
			dir != "." && path.Dir(dir) == path.Dir(model) && path.Base(name) == "config.json":
			names = append(names, name)
		}
	}
	return names
}

// hasCompleteSiblings reports whether all siblings of the file called model, such as its config.json, exist at their completePath. A
// model that is opened by its path would go without the others.
func (d *folder) hasCompleteSiblings(model string) bool {
	return !slices.ContainsFunc(d.siblings(model), func(name string) bool {
		_, err := os.Stat(d.completePath(name))
		return err != nil
	})
}

// fetchFiles fetches the files called names one after the other, and moves them to their final paths in the cache. model is the name of the
// model's first file. With Options.Loader.Trust each file is verified before it is moved. progress may be nil. Its arguments are the bytes
// that are present of all files, and the bytes of all files. fetchFiles fails if a file cannot be fetched, verified or moved.
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

// fetchFile fetches the file called name, moves it to its final path, and returns its size in bytes. With Options.Loader.Trust it verifies
// the bytes before they go into the cache: Trust gets the path of pathFromModel. It fails if opening, verifying or fetching does.
func (d *folder) fetchFile(ctx context.Context, model, name string, progress func(have, size int64)) (size int64, err error) {
	f, err := d.open(ctx, name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if trust := d.opts.Loader.Trust; trust != nil {
		s := f.stored()
		if err := s.Verify(ctx, pathFromModel(model, name), trust); err != nil {
			return 0, err
		}
	}
	return f.Size(), f.fetchRest(ctx, progress)
}

// pathFromModel returns the path of the file called name from the folder of the file called model. If it is not below that
// folder, pathFromModel returns its base name.
func pathFromModel(model, name string) string {
	dir := path.Dir(model)
	if dir == "." {
		return name
	}
	if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
		return rest
	}
	return path.Base(name)
}

// filterCandidates removes from names the files that cannot be the model, and returns the rest. names are base names, and their slice is
// changed. A file may be the model if it has the base name of one of d.modelCandidates, or is an index of shards. If d.modelCandidates is
// nil, every file may be the model.
func (d *folder) filterCandidates(names []string) []string {
	if d.modelCandidates == nil {
		return names
	}
	isCandidate := make(map[string]bool)
	for _, name := range d.modelCandidates {
		isCandidate[path.Base(name)] = true
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !isCandidate[name] && !strings.Contains(name, manifest.IndexSuffix)
	})
}
