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
	opts    *Options
	address string                   // for messages
	file    string                   // that the address names, or a folder of them; "" for all
	name    func(file string) string // what messages call a file
	objects map[string]object        // by their slash-separated names
	choice  []string                 // the files that may be the model; nil for all
	// lookup finds a file that objects does not list. It is nil if they are all there are.
	lookup func(ctx context.Context, name string) (object, error)
	// all makes Pull bring every file, not only those of the model. pulled is called after that.
	all    bool
	pulled func() error
	// dir is where complete files have their names, or "" if they have none.
	dir      rooted.Path
	filling  *filling // nil without Options.Fill
	unpacked int64    // bytes of archives of configuration
	taken    names    // by what layers and archives list

	mu    sync.Mutex
	begun []*file  // incomplete files whose beginning was in the cache
	found []string // names of files that lookup has found
}

// path returns the path of the file called name, once it is complete: its name in the snapshot, or else
// the path in the cache.
func (d *folder) path(name string) string {
	if d.dir.Name != "" {
		return d.below(name).String()
	}
	return d.objects[name].place.path.String()
}

// below returns the path that gives a complete file its name.
func (d *folder) below(name string) rooted.Path { return d.dir.Join(filepath.FromSlash(name)) }

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
			d.found = append(d.found, name)
		}
		return o, err
	}
	return object{}, &fs.PathError{Op: "open", Path: d.name(name), Err: fs.ErrNotExist}
}

// model returns the name of the file to open as the model: the one that the address names, or the best one of the folder
// that it names. It fails if shard.Choose finds no model there, or several.
func (d *folder) model(ctx context.Context) (string, error) {
	if _, ok := d.objects[d.file]; ok {
		return d.file, nil
	}
	if len(d.choice) == 1 && d.file == "" {
		return d.choice[0], nil
	}
	var names []string // of files in the folder d.file
	for name := range d.objects {
		if path.Dir(name) == path.Clean("./"+d.file) {
			names = append(names, path.Base(name))
		}
	}
	if d.file != "" && len(names) == 0 { // not listed, but the server may have it
		_, err := d.object(ctx, d.file)
		return d.file, err
	}
	name, err := shard.Choose(d.chosen(names), func(name string) *manifest.File {
		return d.manifest(ctx, path.Join(d.file, name))
	})
	if err != nil {
		return "", fmt.Errorf("%s: a repository with %w", d.address, err)
	}
	return path.Join(d.file, name), nil
}

// manifest returns the manifest in the file called name, or nil if the file cannot be read or is none.
func (d *folder) manifest(ctx context.Context, name string) *manifest.File {
	f, err := d.open(ctx, name)
	if err != nil {
		return nil
	}
	defer f.Close()
	decoded, _ := formats.Decode(mmapio.FromReaderAt(bound{ctx, f}, f.Size()), nil)
	m, _ := decoded.(*manifest.File)
	return m
}

// bound is a file whose reads end with ctx.
type bound struct {
	ctx context.Context
	*file
}

func (b bound) ReadAt(p []byte, off int64) (int, error) { return b.ReadAtContext(b.ctx, p, off) }

// open opens the file called name: in this cache, in another, or on its server. For a file that d.objects lists it sends
// no request.
func (d *folder) open(ctx context.Context, name string) (*file, error) {
	o, err := d.object(ctx, name)
	if err != nil {
		return nil, err
	}
	return d.openObject(ctx, o, name)
}

// openObject opens the content o of the file called name. If its bytes are all present, and many, it begins to move them
// to their final path in the background.
func (d *folder) openObject(ctx context.Context, o object, name string) (*file, error) {
	f, err := d.openContent(ctx, o, name)
	if err == nil && f.part != nil && f.part.Have() == o.size && o.size > maxAtClose {
		f.finalize()
	}
	return f, err
}

// openContent opens the content o of the file called name: complete in a cache, incomplete in this one, or (without
// a cache) on the server. Its caller may release the file instead of closing it.
func (d *folder) openContent(ctx context.Context, o object, name string) (f *file, err error) {
	f = &file{folder: d, base: name, object: o}
	if f.whole, err = o.find(); err == nil {
		return f, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if f.whole, err = o.elsewhere(ctx, d.opts); err == nil {
		return f, nil
	} else if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if d.opts.NoCache || o.id == "" {
		return f, nil
	}
	f.part, err = d.partOf(o, f.fetch, f.sourceVersion)
	// The disk is full, or another process removes or fills this file: all but Pull read on without a cache.
	if sparse.Unwritable(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, sparse.ErrOther) {
		if d.opts.fresh {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
		d.opts.warnFull(o.name)(err)
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.name, err)
	}
	if f.part.Has(0, f.head()) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.begun = append(d.begun, f) // for removeWrong
	}
	return f, nil
}

// partOf opens, or makes, the cache's incomplete file of the content o. fetch brings missing bytes. version tells which
// version they are of, and is ignored if the content's id does.
func (d *folder) partOf(o object, fetch sparse.Fetch, version func() string) (*sparse.File, error) {
	if o.origin == "" {
		version = nil
	}
	var asked *atomic.Int64
	if d.filling != nil { // the background fetch lets reads of all files go first
		asked = &d.filling.asked
	}
	dir, err := d.opts.partialDir(o.place.path.Parent())
	if err != nil && !sparse.Unwritable(err) {
		return nil, err
	}
	return sparse.Open(dir.Join(o.partial()), sparse.Options{
		Size: o.size, Identity: o.partial(), Name: o.name, Version: version,
		Fetch: fetch, Full: d.opts.warnFull(o.name), Asked: asked,
	})
}

// openModel opens the folder's model: by its path if all its files are complete in another program's cache, else file by
// file. With Options.Fill it then begins to fetch the rest in the background.
func (d *folder) openModel(ctx context.Context) (*loader.Model, error) {
	name, err := d.model(ctx)
	if err != nil {
		return nil, err
	}
	if d.opts.Fill && !d.opts.NoCache {
		d.filling = new(filling)
	}
	f, err := d.open(ctx, name)
	if err != nil {
		return nil, err
	}
	if f.whole != nil && d.dir.Name != "" && !f.place.own && d.hasSiblings(name) {
		m, err := loader.Open(d.path(name), d.opts.Loader)
		if !errors.Is(err, fs.ErrNotExist) { // or else some of its files are not complete
			f.Close()
			return m, err
		}
	}
	m, err := d.load(ctx, f)
	if err == nil {
		d.filling.start(d.opts)
	}
	return m, err
}

// load opens the model whose first file is f, which it closes. It tries once more if the cache had other bytes than the
// server has. If opening fails, f does not move to its final path in the cache.
func (d *folder) load(ctx context.Context, f *file) (m *loader.Model, err error) {
	name := f.base
	err = d.twice(ctx, func() (err error) {
		if f == nil { // at the second try
			if d.filling != nil {
				d.filling = new(filling)
			}
			if f, err = d.open(ctx, name); err != nil {
				return err
			}
		}
		d.filling.add(f)
		f.unopened.Store(true)
		m, err = loader.OpenFolder(ctx, newBeside(f), path.Base(name), d.opts.Loader)
		f.unopened.Store(err != nil)
		f = nil
		return err
	})
	return m, err
}

// beside is a folder as a model sees it: the files beside its first, of the same revision.
type beside struct {
	*folder
	dir   string
	first atomic.Pointer[file] // which is open already, until it is asked for
}

// newBeside returns the folder of f as the model sees it, which gets f when it asks for its name.
func newBeside(f *file) *beside {
	b := &beside{folder: f.folder, dir: path.Dir(f.base)}
	b.first.Store(f)
	return b
}

// Open opens the file called name beside the first. The first file itself, which is open already, it passes on once.
func (b *beside) Open(ctx context.Context, name string) (loader.Stored, error) {
	name = path.Join(b.dir, name)
	if f := b.first.Load(); f != nil && f.base == name && b.first.CompareAndSwap(f, nil) {
		return f.stored(), nil
	}
	f, err := b.open(ctx, name)
	if err != nil {
		return loader.Stored{}, err
	}
	b.filling.add(f)
	return f.stored(), nil
}

// twice calls read, and once more if the cache had another version than the server, or another process has begun the
// file anew. It also does so if read finds a malformed file, and the cache had other bytes than the server.
func (d *folder) twice(ctx context.Context, read func() error) error {
	err := read()
	if errors.As(err, new(*layout.FormatError)) && d.removeWrong(ctx) ||
		errors.Is(err, mmapio.ErrChanged) || errors.Is(err, sparse.ErrOther) {
		return read()
	}
	return err
}

// removeWrong compares the beginnings of the cache's incomplete files with those that their servers send, and removes
// the files that differ. It reports whether it removed one. Files that it cannot compare stay.
func (d *folder) removeWrong(ctx context.Context) (removed bool) {
	d.mu.Lock()
	begun := d.begun
	d.mu.Unlock()
	for _, o := range begun {
		if o.part.Finished() {
			continue
		}
		f, err := d.openContent(ctx, o.object, o.base)
		if err != nil {
			continue
		}
		if f.part != nil && f.part.Has(0, f.head()) {
			cached, now := make([]byte, f.head()), make([]byte, f.head())
			source, err := f.ask(ctx)
			if err == nil {
				err = errors.Join(source.ReadVector(ctx, [][]byte{now}, 0), f.part.ReadVector(ctx, [][]byte{cached}, 0))
			}
			if err == nil && !bytes.Equal(cached, now) || errors.Is(err, mmapio.ErrChanged) {
				d.opts.logger().Warn("incomplete file in the cache is not what its server has", "file", f.Name())
				removed = f.part.Drop() == nil || removed
			}
		}
		f.release()
	}
	return removed
}

// members opens the model that begins with the file called name, and lists its files by name. single reports that this
// file is the whole model. If the address names it, only files that opening has asked for are listed beside it.
func (d *folder) members(ctx context.Context, name string) (names []string, single bool, err error) {
	f, err := d.open(ctx, name)
	if err != nil {
		return nil, false, err
	}
	m, err := d.load(ctx, f)
	if err != nil {
		return nil, false, err
	}
	defer m.Close()
	names = append(slices.Clone(d.found), name) // such as config.json
	for _, file := range m.Files() {
		names = append(names, path.Join(path.Dir(name), path.Base(file.Path)))
	}
	if d.all {
		names = slices.AppendSeq(names, maps.Keys(d.objects))
	} else if d.file != name || len(m.Files()) > 1 {
		names = append(names, d.siblings(name)...)
	}
	slices.Sort(names)
	return slices.Compact(names), len(m.Files()) == 1, nil
}

// alone reports whether a pulled model is opened by the file called name rather than by its folder: the address names
// that file, or only it may be the model. names are all files of the model; single means that it has one file of weights.
func (d *folder) alone(name string, names []string, single bool) bool {
	if d.choice != nil {
		return len(d.choice) == 1 && (d.all || len(names) == 1) && !strings.HasSuffix(name, manifest.IndexSuffix)
	}
	return d.file == name && single
}

// siblings lists the files in the folder of the file called model that belong to it and are no weights: configuration,
// tokenizer, generation. It tells them by their suffixes.
func (d *folder) siblings(model string) (names []string) {
	for name := range d.objects {
		if path.Dir(name) != path.Dir(model) || strings.Contains(name, manifest.IndexSuffix) {
			continue
		}
		switch path.Ext(name) {
		case ".json", ".txt", ".model", ".jinja", ".tiktoken", ".vocab", ".spm":
			names = append(names, name)
		}
	}
	return names
}

// hasSiblings reports whether all files that siblings lists are complete, and found by their names. A model that is opened
// by its path would go without the others, such as its config.json.
func (d *folder) hasSiblings(model string) bool {
	return !slices.ContainsFunc(d.siblings(model), func(name string) bool {
		_, err := os.Stat(d.path(name))
		return err != nil
	})
}

// fill fetches the files called names, those of a model, one after the other, and moves them to their final paths. With
// Options.Loader.Trust their bytes are verified before. progress, if set, gets the bytes of all of them.
func (d *folder) fill(ctx context.Context, model string, names []string, progress func(have, total int64)) error {
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
		err := d.twice(ctx, func() (err error) {
			size, err = d.fillOne(ctx, model, name, func(have, _ int64) {
				if progress != nil {
					progress(before+have, total)
				}
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", d.name(name), err)
		}
		if before += size; progress != nil {
			progress(before, total)
		}
	}
	return nil
}

// fillOne fetches the file called name, which belongs to the file called model, and returns its size. With
// Options.Loader.Trust it verifies the bytes before they go into the cache.
func (d *folder) fillOne(ctx context.Context, model, name string, progress func(have, size int64)) (size int64, err error) {
	f, err := d.open(ctx, name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if by := d.opts.Loader.Trust; by != nil {
		s := f.stored()
		err = s.Verify(ctx, besideModel(model, name), by)
	}
	if err == nil {
		err = f.fill(ctx, progress)
	}
	return f.Size(), err
}

// besideModel returns the path of the file called name from the folder of the file called model. If it is not below that
// folder, besideModel returns its base name.
func besideModel(model, name string) string {
	dir := path.Dir(model)
	if rest, ok := strings.CutPrefix(name, dir+"/"); ok || dir == "." {
		return rest
	}
	return path.Base(name)
}

// chosen returns those of names that may be the model, which are all if d.choice is nil. Indexes of shards always may. It
// changes the list names.
func (d *folder) chosen(names []string) []string {
	if d.choice == nil {
		return names
	}
	may := make(map[string]bool)
	for _, name := range d.choice {
		may[path.Base(name)] = true
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !may[name] && !strings.Contains(name, manifest.IndexSuffix)
	})
}
