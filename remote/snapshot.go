package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// snapshot returns the folder of the model at address a, at the commit that its revision stands for. Without a home directory it makes h
// and the folder use no cache of this module. Offline, if no listing of the files is cached, the folder has the files of the commit in the
// Hub's cache. snapshot returns errOffline if there are none. It fails if the revision has no commit, or if the files cannot be listed.
func (h *hub) snapshot(ctx context.Context, a hubAddress, o *Options) (*folder, error) {
	commit, err := h.resolveCommit(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	ownCache, err := o.cache()
	if err != nil { // there is no home directory: listFiles finds no listing in this folder, and writes none
		ownCache, o = h.cache.Join(partialDirName), o.withoutCache()
		h.opts = o
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
		if e.etag() == "" { // snapshotFiles has found it: only the file in the snapshot can be read
			d.objects[name] = object{name: d.messageName(name), size: e.Size, paths: cachePaths{path: d.snapshotPath(name)},
				connect: func(context.Context, string) (Source, error) { return nil, errOffline }}
			continue
		}
		address := (&url.URL{Path: "/" + a.repo + "/resolve/" + commit + "/" + name}).EscapedPath()
		d.objects[name] = h.object(e, d.messageName(name), h.endpoint.String()+address, repository, d.snapshotPath(name))
	}
	return d, nil
}

// object returns the content of the file that e describes, at an http address of the Hub. Messages call it name. The complete file lies in
// repository, its folder in the Hub's cache, and link is its path in the snapshot. object sends no request.
func (h *hub) object(e entry, name, address string, repository, link rooted.Path) object {
	blob := repository.Join("blobs", e.etag())
	return object{
		name: name, size: e.Size, id: e.etag(), origin: h.endpoint.String(),
		connect: func(ctx context.Context, version string) (Source, error) {
			return openSource(ctx, address, *h.options(), e.Size, version, h.explain)
		},
		paths: cachePaths{
			path: blob, snapshotName: link.String(),
			lock: h.cache.Join(".locks", repository.Name, e.etag()+".lock"),
			link: func() error { return linkUnlessExists(link, blob) },
		},
	}
}

// snapshotFiles returns the files in dir, the folder of a snapshot of the Hub's cache, by their slash-separated names. Most are links to
// files that have their digests as names; the digest becomes the entry's BlobID. A plain file, as on a system without links, gets an empty
// BlobID. snapshotFiles leaves out what it cannot read.
func snapshotFiles(dir string) map[string]entry {
	files := make(map[string]entry)
	filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || !info.Mode().IsRegular() || checkName(name) != nil {
			return nil
		}
		e := entry{Size: info.Size()}
		target, _ := os.Readlink(path)
		if etag := filepath.Base(target); gitID.MatchString(etag) { // a small file
			e.BlobID = etag
		} else if digestID.MatchString(etag) { // SHA-256
			e.BlobID, e.LFSSHA256, e.LFSSize = etag, etag, e.Size
		}
		files[name] = e
		return nil
	})
	return files
}
