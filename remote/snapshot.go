package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// snapshot returns the files of the model at address a, at the commit that its revision stands for. Offline, the list of
// files may come from the snapshot's folder in the Hub's cache. It fails if the Hub's API does, or lacks the model.
func (h *hub) snapshot(ctx context.Context, a hubAddress, o *Options) (*folder, error) {
	commit, err := h.resolveCommit(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	ownCache, err := o.cache()
	if err != nil { // without a home directory there is no cache to write the listing to
		ownCache, h.opts = h.cache.Join(partialDirName), o.withoutCache()
	}
	repository := h.repository(a.repo)
	files, err := h.listFiles(ctx, a.repo, commit, ownCache)
	if errors.Is(err, errOffline) {
		if files = snapshotFiles(repository.Join("snapshots", commit).String()); len(files) > 0 {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	d := &folder{
		opts: o, address: a.String(), addressedFile: a.file,
		snapshotDir: repository.Join("snapshots", commit),
		objects:     make(map[string]object, len(files)),
		messageName: func(file string) string {
			a := a
			a.file = file
			return a.String()
		},
	}
	for name, e := range files {
		if e.etag() == "" { // from the snapshot's folder: its content has no known id, and only the file there is read
			d.objects[name] = object{name: d.messageName(name), size: e.Size, paths: cachePaths{path: d.snapshotPath(name)},
				connect: func(context.Context, string) (Source, error) { return nil, errOffline }}
			continue
		}
		blob := repository.Join("blobs", e.etag())
		d.objects[name] = object{
			name: d.messageName(name), size: e.Size, id: e.etag(), origin: h.endpoint.String(),
			connect: func(ctx context.Context, version string) (Source, error) {
				at := (&url.URL{Path: "/" + a.repo + "/resolve/" + commit + "/" + name}).EscapedPath()
				return openSource(ctx, h.endpoint.String()+at, *h.options(), e.Size, version, h.explain)
			},
			paths: cachePaths{
				path: blob, snapshotName: d.completePath(name),
				lock: h.cache.Join(".locks", repository.Name, e.etag()+".lock"),
				link: func() error { return linkUnlessExists(d.snapshotPath(name), blob) },
			},
		}
	}
	return d, nil
}

// snapshotFiles returns the files in dir, the folder of a snapshot, by their slash-separated names. The name of a link's target is
// the file's etag; a plain file, as on a system without links, has none. It leaves out what it cannot read.
func snapshotFiles(dir string) map[string]entry {
	files := make(map[string]entry)
	filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		info, err2 := os.Stat(path)
		if errors.Join(err, err2) != nil || !info.Mode().IsRegular() || checkName(name) != nil {
			return nil
		}
		e := entry{Size: info.Size()}
		to, _ := os.Readlink(path)
		if etag := filepath.Base(to); commitID.MatchString(etag) {
			e.BlobID = etag
		} else if digestID.MatchString(etag) {
			e.BlobID, e.LFSSHA256, e.LFSSize = etag, etag, e.Size
		}
		files[name] = e
		return nil
	})
	return files
}
