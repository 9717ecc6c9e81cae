package remote

import (
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// ollamaStore returns the folder in which Ollama has its models: $OLLAMA_MODELS, else ~/.ollama/models. It fails if there is no home
// directory.
func ollamaStore() (rooted.Path, error) {
	if dir := os.Getenv("OLLAMA_MODELS"); dir != "" {
		return rooted.Path{Dir: dir}, nil
	}
	home, err := os.UserHomeDir()
	return rooted.Path{Dir: filepath.Join(home, ".ollama", "models")}, err
}

// otherCaches returns the paths at which the caches of Ollama and the Hub would have the content with a SHA-256, in hex. It leaves out a
// cache whose folder is unknown.
func (o *Options) otherCaches(sha256 string) (paths []rooted.Path) {
	if store, err := ollamaStore(); err == nil {
		paths = append(paths, store.Join("blobs", "sha256-"+sha256))
	}
	if h, err := newHub(o); err == nil {
		for _, dir := range h.repositories() {
			paths = append(paths, dir.Join("blobs", sha256))
		}
	}
	return paths
}

// findInOtherCaches opens the object's content in a cache of this machine that has it: this module's, Ollama's or the Hub's. It checks the
// digest of another program's file. Unless opts.NoCache is set, it then tries to make a hard link to that file at the object's path. It
// only logs that a file is wrong or cannot be read. It returns fs.ErrNotExist if no cache has the content, if o.id is no SHA-256, or when
// ctx ends.
func (o *object) findInOtherCaches(ctx context.Context, opts *Options) (*os.File, error) {
	if len(o.id) != 2*sha256.Size {
		return nil, fs.ErrNotExist
	}
	if own, err := opts.ownCachePaths(o.id); err == nil {
		if f, err := o.openSized(own.path.String()); err == nil {
			return f, nil
		}
	}
	for _, path := range opts.otherCaches(o.id) {
		f, err := o.openSized(path.String())
		if err != nil {
			continue
		}
		if err = o.checkForeignDigest(ctx, f); err == nil {
			if !opts.NoCache { // so that no other process checks the digest again
				o.createUnderLock(ctx, tryLock, discardNothing, func() error { return o.hardLink(f) })
			}
			return f, nil
		}
		f.Close()
		if ctx.Err() == nil {
			opts.logger().Warn("file of another cache is not used", "file", path.String(), "reason", err)
		}
	}
	return nil, fs.ErrNotExist
}

// checkedForeign has the files of other caches whose digests this process has found right: a fs.FileInfo by digest.
var checkedForeign sync.Map

// checkForeignDigest checks that f, a file in another program's cache, has the digest o.id. It remembers the last file that had the digest
// of an id, with the file's time. For the same file with the same time it does nothing. It returns layout.ErrChecksum for another digest.
// It also fails if f cannot be read, or when ctx ends.
func (o *object) checkForeignDigest(ctx context.Context, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if seen, ok := checkedForeign.Load(o.id); ok {
		if checked := seen.(fs.FileInfo); os.SameFile(checked, info) && checked.ModTime().Equal(info.ModTime()) {
			return nil
		}
	}
	err = o.checkDigest(ctx, io.NewSectionReader(f, 0, o.size))
	if err == nil {
		checkedForeign.Store(o.id, info)
	}
	return err
}
