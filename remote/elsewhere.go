package remote

import (
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// ollamaStore returns the folder of Ollama's models.
func ollamaStore() (rooted.Path, error) {
	if dir := os.Getenv("OLLAMA_MODELS"); dir != "" {
		return rooted.Path{Dir: dir}, nil
	}
	home, err := os.UserHomeDir()
	return rooted.Path{Dir: filepath.Join(home, ".ollama", "models")}, err
}

// elsewhere opens the content in a cache of this machine that has it: this module's, Ollama's or the Hub's. It checks
// the digest of another program's file, once, and links that file to the object's path in the cache. The error is
// fs.ErrNotExist if no cache has the content, or if its id is no SHA-256.
func (o *object) elsewhere(ctx context.Context, opts *Options) (*os.File, error) {
	if len(o.id) != 2*sha256.Size {
		return nil, fs.ErrNotExist
	}
	var paths []rooted.Path
	own, err := opts.ownPlace(o.id)
	if err == nil {
		paths = append(paths, own.path)
	}
	if store, err := ollamaStore(); err == nil {
		paths = append(paths, store.Join("blobs", "sha256-"+o.id))
	}
	if h, err := newHub(new(httprange.Options)); err == nil {
		for _, dir := range h.repositories() {
			paths = append(paths, dir.Join("blobs", o.id))
		}
	}
	for _, path := range paths {
		f, err := rooted.Regular(path.String())
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if err == nil && info.Size() == o.size {
			if path == own.path {
				return f, nil
			}
			if err = o.compare(ctx, f, info); err == nil {
				if !opts.NoCache { // so that no other process compares it again; it does not wait for the lock
					o.put(ctx, false, func() error { return nil }, func() error { return o.link(f) })
				}
				return f, nil
			}
		}
		f.Close()
		if err != nil && ctx.Err() == nil {
			opts.logger().Warn("file of another cache is not used", "file", path.String(), "reason", err)
		}
	}
	return nil, fs.ErrNotExist
}

// compared has the files of other caches whose digests are right, by digest.
var compared sync.Map

// compare checks the digest of f, a file in another cache. It does nothing if this process has checked that file before,
// and the file's time is still the same.
func (o *object) compare(ctx context.Context, f *os.File, info fs.FileInfo) error {
	if seen, ok := compared.Load(o.id); ok && os.SameFile(seen.(fs.FileInfo), info) && seen.(fs.FileInfo).ModTime().Equal(info.ModTime()) {
		return nil
	}
	err := o.check(ctx, io.NewSectionReader(f, 0, o.size))
	if err == nil {
		compared.Store(o.id, info)
	}
	return err
}
