package remote

import (
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout/manifest"
)

// Pulled is a model that the cache has complete.
type Pulled struct {
	// Path leads to the file that the address names, if that is a model by itself, else to the
	// snapshot's folder.
	Path string
	// Files are the paths of all that belongs to the model, in order.
	Files []string
	// Names are the paths of Files from the model's folder, with slashes.
	Names []string
}

// pull downloads the files of the folder's model that the cache lacks, calls d.afterPull if set, and returns the paths of all files.
// Pulled.Path is the path of one file if the model opens by that file alone, and else the model's folder. Without d.modelCandidates it is
// one file if the address names that file and it has all weights. With d.modelCandidates it is one file if the file is the only candidate,
// is no index, and needs no other. Pulled.Names are relative to the model's folder. pull fails if there is no model, or if fetchFiles or
// d.afterPull fails.
func (d *folder) pull(ctx context.Context) (*Pulled, error) {
	name, err := d.chooseModel(ctx)
	if err != nil {
		return nil, err
	}
	names, hasOneFile, err := d.modelFiles(ctx, name)
	if err != nil {
		return nil, err
	}
	d.opts.downloads.removeClosed.Store(true) // fetchFiles reads again what modelFiles has read, and nothing else does
	if err := d.fetchFiles(ctx, name, names); err != nil {
		return nil, err
	}
	if d.afterPull != nil {
		if err := d.afterPull(); err != nil {
			return nil, err
		}
	}
	pulled := &Pulled{Path: d.snapshotPath(name).String()}
	for _, member := range names {
		pulled.Files = append(pulled.Files, d.snapshotPath(member).String())
		pulled.Names = append(pulled.Names, pathFromModel(name, member))
	}
	opensAsFile := d.addressedFile == name && hasOneFile
	if d.modelCandidates != nil { // an index needs its shards; what d.pullsAllFiles fetches, such as licenses, no model needs
		isOnlyCandidate := len(d.modelCandidates) == 1 && !strings.HasSuffix(name, manifest.IndexSuffix)
		opensAsFile = isOnlyCandidate && (len(names) == 1 || d.pullsAllFiles)
	}
	if !opensAsFile {
		pulled.Path = filepath.Dir(pulled.Path)
	}
	return pulled, nil
}

// modelFiles returns the sorted names of all files to pull for the model whose first file is called name. To find them it opens the model,
// and closes it. Among them are the model's files of weights, and all files that d has looked up so far. With d.pullsAllFiles, all files of
// the folder are among them. Otherwise the siblings of the first file are, with one exception: the address names the first file, and that
// has all weights. hasOneFile is true if one file has all weights. modelFiles fails if the model cannot be opened.
func (d *folder) modelFiles(ctx context.Context, name string) (names []string, hasOneFile bool, err error) {
	m, _, err := d.loadModel(ctx, name)
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

// fetchFiles fetches the files called names one after the other, and moves them to their final paths in the cache. model is the name of the
// model's first file. It calls Options.Progress with the number of bytes that are present and the number of all bytes, both of all files
// together. With Options.Loader.Trust it verifies a file's bytes before they go into the cache. Trust gets the path that pathFromModel
// returns. fetchFiles fails if a file cannot be fetched, verified or moved.
func (d *folder) fetchFiles(ctx context.Context, model string, names []string) error {
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
		err := d.retryChanged(ctx, func() error {
			f, err := d.open(ctx, name)
			if err != nil {
				return err
			}
			defer f.Close()
			if trust := d.opts.Loader.Trust; trust != nil {
				stored := f.stored() // whose bytes are verified from now on, before they go into the cache
				if err := stored.RequireDigests(ctx, pathFromModel(model, name), trust); err != nil {
					return err
				}
			}
			size = f.Size()
			return f.fetchRest(ctx, func(have, _ int64) { d.opts.Progress(before+have, total) })
		})
		if err != nil {
			return fmt.Errorf("%s: %w", d.messageName(name), err)
		}
		before += size
		d.opts.Progress(before, total)
	}
	return nil
}

// pathFromModel returns the path of the file called name, relative to the folder of the file called model. If name is not below that
// folder, pathFromModel returns the base of name.
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
