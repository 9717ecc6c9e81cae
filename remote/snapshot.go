package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// snapshot returns the files of the model at address a, at the commit that its revision stands for. Offline, the list of
// files may come from the snapshot's folder in the Hub's cache. It fails if the Hub's API does, or lacks the model.
func (h *hub) snapshot(ctx context.Context, a hubAddress, o *Options) (*folder, error) {
	h.noCache, h.logger = o.NoCache, o.logger()
	commit, err := h.commit(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	own, err := o.cache()
	if err != nil { // without a home directory there is no cache to write the listing to
		own, h.noCache = h.cache.Join(besideName), true
	}
	repository := h.repository(a.repo)
	files, err := h.tree(ctx, a.repo, commit, own)
	if errors.Is(err, errOffline) {
		if files = snapshotFiles(repository.Join("snapshots", commit).String()); len(files) > 0 {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	d := &folder{
		opts: o, address: a.String(), file: a.file,
		dir:     repository.Join("snapshots", commit),
		objects: make(map[string]object, len(files)),
		name: func(file string) string {
			a := a
			a.file = file
			return a.String()
		},
	}
	for name, e := range files {
		if e.etag() == "" { // from the snapshot's folder: its content has no known id, and only the file there is read
			d.objects[name] = object{name: d.name(name), size: e.Size, place: place{path: d.below(name)},
				connect: func(context.Context, string) (Source, error) { return nil, errOffline }}
			continue
		}
		blob := repository.Join("blobs", e.etag())
		d.objects[name] = object{
			name: d.name(name), size: e.Size, id: e.etag(), origin: h.endpoint.String(), check: e.checkContent,
			connect: func(ctx context.Context, version string) (Source, error) {
				at := (&url.URL{Path: "/" + a.repo + "/resolve/" + commit + "/" + name}).EscapedPath()
				return openSource(ctx, h.endpoint.String()+at, *h.options(), e.Size, version, h.explain)
			},
			place: place{
				path: blob, named: d.path(name),
				lock: h.cache.Join(".locks", repository.Name, e.etag()+".lock"),
				link: func() error { return point(d.below(name), blob) },
			},
		}
	}
	return d, nil
}

// snapshotFiles lists the files in a snapshot's folder by their slash-separated names, for snapshots without a listing.
// The target of a link tells the file's etag. A plain file, as on a system without links, has none.
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

// checkContent reads content, and returns an error unless its digest is the etag.
func (e entry) checkContent(ctx context.Context, r io.Reader) error {
	return checkContent(ctx, r, e.etag(), e.Size)
}
