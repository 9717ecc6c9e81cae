package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/shard"
)

// chooseModel returns the name of the file to open as the model. If d.addressedFile is a file, the name is d.addressedFile. If
// d.addressedFile is "" and there is one candidate, the name is that candidate. Otherwise d.addressedFile is a folder, and shard.Choose
// chooses a file in it. chooseModel fails if the folder has no model, or several. It also fails if the file or folder does not exist.
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
	if d.modelCandidates != nil { // only they, and indexes of shards
		names = slices.DeleteFunc(names, func(name string) bool {
			isCandidate := slices.ContainsFunc(d.modelCandidates, func(c string) bool { return path.Base(c) == name })
			return !isCandidate && !strings.Contains(name, manifest.IndexSuffix)
		})
	}
	name, err := shard.Choose(names, func(name string) (m *manifest.File) { // nil if the file cannot be read or is no manifest
		d.decode(ctx, path.Join(d.addressedFile, name), func(_ layout.Input, decoded layout.File) error {
			m, _ = decoded.(*manifest.File)
			return nil
		})
		return m
	})
	if err != nil {
		return "", fmt.Errorf("%s: a repository with %w", d.messageName(d.addressedFile), err)
	}
	return path.Join(d.addressedFile, name), nil
}

// openModel opens the folder's model. If the Hub's cache has all files of the model complete, it opens them by path. Otherwise it calls
// loadModel. With Options.Fill and a cache, it then begins to fetch the missing bytes of the files in the background. openModel fails if
// there is no model, or if opening the model does.
func (d *folder) openModel(ctx context.Context) (*loader.Model, error) {
	name, err := d.chooseModel(ctx)
	if err != nil {
		return nil, err
	}
	isMissing := func(name string) bool { // a file such as config.json is not in the snapshot, where a model opened by its path looks for it
		_, err := os.Stat(d.snapshotPath(name).String())
		return err != nil
	}
	if o := d.objects[name]; o.paths.isHubs && o.isComplete() && !slices.ContainsFunc(d.siblings(name), isMissing) {
		m, err := loader.Open(d.snapshotPath(name).String(), d.opts.Loader)
		if !errors.Is(err, fs.ErrNotExist) { // or else some of its files are not complete
			return m, err
		}
	}
	m, files, err := d.loadModel(ctx, name)
	if err == nil && d.opts.Fill && !d.opts.NoCache {
		d.fillInBackground(files)
	}
	return m, err
}

// isComplete reports whether openComplete can open a complete file of the object in the cache.
func (o *object) isComplete() bool {
	f, err := o.openComplete()
	if err == nil {
		f.Close()
	}
	return err == nil
}

// loadModel opens the model whose first file is called name. files are all files that it has opened; the model's Close closes them. If the
// cache had other bytes than the server, loadModel opens the model once more. If opening fails, the first file gets no final path in the
// cache. loadModel fails if loader.OpenFolder does.
func (d *folder) loadModel(ctx context.Context, name string) (m *loader.Model, files []*file, err error) {
	err = d.retryChanged(ctx, func() (err error) {
		in := &modelFolder{folder: d, modelDir: path.Dir(name)}
		m, err = loader.OpenFolder(ctx, in, path.Base(name), d.opts.Loader)
		in.mu.Lock()
		defer in.mu.Unlock()
		if files = in.files; err == nil {
			files[0].failedToOpen.Store(false)
		}
		return err
	})
	return m, files, err
}

// modelFolder is the folder from which a model opens its files: the files beside its first, of the same revision.
type modelFolder struct {
	*folder
	modelDir string // the names of the model's files begin with it

	mu    sync.Mutex
	files []*file // all that were opened; the model's first file comes first
}

// Open opens the file called name, which lies beside the model's first file. It fails if there is no such file, or
// if it cannot be opened.
func (b *modelFolder) Open(ctx context.Context, name string) (loader.FolderFile, error) {
	f, err := b.open(ctx, path.Join(b.modelDir, name))
	if err != nil {
		return loader.FolderFile{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f.failedToOpen.Store(len(b.files) == 0) // until loadModel has opened a model: Close, which OpenFolder calls if it fails, removes f then
	b.files = append(b.files, f)
	return f.stored(), nil
}

// fillInBackground begins to fetch the missing bytes of files, the files of an open model, one after the other. It calls Options.Progress
// as bytes come, and at the end. After the first failure it fetches no more, and logs that failure. Fetching also ends when one of the
// files is closed. If a callback of the caller's has panicked in the background, the first call of Close panics too.
func (d *folder) fillInBackground(files []*file) {
	ctx, cancel := context.WithCancel(context.Background())
	var running parallel.Group
	var once sync.Once
	endFill := func() {
		once.Do(func() { cancel(); running.Wait() })
	}
	for _, f := range files {
		f.endFill = endFill
	}
	report := func(int64, int64) {
		var have, total int64
		for _, f := range files {
			total += f.Size()
			have += f.present()
		}
		d.opts.Progress(have, total)
	}
	running.Go(func() error {
		for _, f := range files {
			if f.complete != nil || f.cancelFinalizing != nil { // complete, or moving to its final path already
				continue
			}
			if err := f.fetchRest(ctx, report); err != nil {
				if ctx.Err() == nil {
					d.opts.logger().Warn("the model's files are not completed", "file", f.Name(), "reason", err)
				}
				return nil
			}
		}
		report(0, 0)
		return nil
	})
}

// siblings returns the names of files that belong to the model in the file called model, and are no weights: configuration, tokenizer,
// generation. They lie beside that file, and have one of certain suffixes. Indexes of shards are not among them. Each config.json one
// folder below is: there sentence-transformers says how vectors are pooled.
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
