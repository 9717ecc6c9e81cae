package convert

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tensormap/tensormap/shard"
)

// checkPaths checks replacedPath and the paths of a sharded model. It fails if one is the path of a file that the model reads,
// or of anything but a regular file. It sets Removed if there is a file at replacedPath, and Left to what foreignShards finds.
// The path of a single file is checked when it is created.
func (p *Plan) checkPaths() error {
	sources := p.sourceFiles()
	if p.replacedPath != "" {
		if err := checkPath(p.replacedPath, os.Stat, sources); err != nil {
			return fmt.Errorf("%w, and cannot stand beside %s", err, filepath.Base(p.Path))
		}
		if _, err := os.Lstat(p.replacedPath); err == nil { // even a link to nothing is removed
			p.Removed = p.replacedPath
		}
	}
	if p.Shards > 0 {
		// If the manifest is a link, its target is replaced. A reader would not follow a link from the
		// manifest to a shard elsewhere.
		err := cmp.Or(checkPath(p.Path, os.Stat, sources), checkPath(cmp.Or(p.requestedPath, p.Path), os.Stat, sources))
		for i := range p.files {
			err = cmp.Or(err, checkPath(p.files[i].path, os.Lstat, sources))
		}
		if err != nil {
			return err
		}
	}
	p.Left = p.foreignShards(sources)
	return nil
}

// checkPath returns an error if stat finds something at path that must not be replaced: one of sources, or anything but a
// regular file. If there is nothing at path, it returns nil.
func checkPath(path string, stat func(string) (fs.FileInfo, error), sources []fs.FileInfo) error {
	info, err := stat(path)
	switch {
	case os.IsNotExist(err):
		return nil // a missing directory is reported when the file is created
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file, so no part of a sharded model can have this name", path)
	case isSource(info, sources): // of the model that is converted
		return fmt.Errorf("%s: is a file that is being read", path)
	}
	return nil
}

// sourceFiles returns the FileInfo of each file that the model reads. It leaves out files that os.Stat cannot find,
// such as remote files.
func (p *Plan) sourceFiles() (sources []fs.FileInfo) {
	for _, f := range p.model.Files() {
		if info, err := os.Stat(f.Path); err == nil {
			sources = append(sources, info)
		}
	}
	return sources
}

// isSource reports whether info describes one of sources.
func isSource(info fs.FileInfo, sources []fs.FileInfo) bool {
	return slices.ContainsFunc(sources, func(s fs.FileInfo) bool { return os.SameFile(s, info) })
}

// foreignShards returns the paths of files that are called like shards of the new model, but belong neither to it nor to
// sources. Another manifest may lead to them, so only the user can say whether to remove them. It leaves out what it cannot read.
func (p *Plan) foreignShards(sources []fs.FileInfo) (paths []string) {
	dir, singleName := filepath.Split(p.singlePath)
	entries, _ := os.ReadDir(cmp.Or(dir, "."))
	for _, e := range entries {
		path := dir + e.Name()
		if shard.Whole(e.Name()) != singleName || slices.ContainsFunc(p.files, func(f file) bool { return f.path == path }) {
			continue
		}
		if info, err := e.Info(); err == nil && !isSource(info, sources) {
			paths = append(paths, path)
		}
	}
	return paths
}
