package remote

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tensormap/tensormap/internal/atomicfile"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/remote/internal/sparse"
	"github.com/tensormap/tensormap/shard"
)

// snapshot is a repository at one commit.
type snapshot struct {
	hub    *hub
	at     hubAddress
	commit string
	files  map[string]entry
	opts   *Options
}

func (h *hub) snapshot(ctx context.Context, a hubAddress, o *Options) (*snapshot, error) {
	commit, err := h.commit(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	files, err := h.tree(ctx, a.repo, commit)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	return &snapshot{h, a, commit, files, o}, nil
}

// name returns what messages call a file.
func (s *snapshot) name(file string) string {
	a := s.at
	a.file = file
	return a.String()
}

// dir returns the folder of the snapshot in the cache.
func (s *snapshot) dir() string {
	return filepath.Join(s.hub.repository(s.at.repo), "snapshots", s.commit)
}

// path returns where the file called name is, once it is complete.
func (s *snapshot) path(name string) string { return filepath.Join(s.dir(), filepath.FromSlash(name)) }

func (s *snapshot) blob(e entry) string {
	return filepath.Join(s.hub.repository(s.at.repo), "blobs", e.etag())
}

// entry returns what the listing has of the file called name.
func (s *snapshot) entry(name string) (entry, error) {
	if e, ok := s.files[name]; ok {
		return e, nil
	}
	return entry{}, &fs.PathError{Op: "open", Path: s.name(name), Err: fs.ErrNotExist}
}

// model returns the name of the file to open.
func (s *snapshot) model(ctx context.Context) (string, error) {
	dir := s.at.file
	if _, ok := s.files[dir]; ok {
		return dir, nil
	}
	var names []string
	for name := range s.files {
		if path.Dir(name) == path.Clean("./"+dir) {
			names = append(names, path.Base(name))
		}
	}
	if dir != "" && len(names) == 0 {
		_, err := s.entry(dir)
		return "", err
	}
	name, err := shard.Choose(names, func(name string) *manifest.File {
		return s.manifest(ctx, path.Join(dir, name))
	})
	if err != nil {
		return "", fmt.Errorf("%v: a repository with %w", s.at, err)
	}
	return path.Join(dir, name), nil
}

// manifest returns the manifest in the file called name, or nil.
func (s *snapshot) manifest(ctx context.Context, name string) *manifest.File {
	f, err := s.open(name)
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

// open opens the file called name, wherever it is. It asks the Hub for nothing.
func (s *snapshot) open(name string) (*file, error) {
	e, err := s.entry(name)
	if err != nil {
		return nil, err
	}
	f := &file{snapshot: s, name: name, entry: e}
	if whole, err := s.complete(name, e); err == nil {
		f.whole = whole
		return f, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if s.opts.NoCache {
		return f, nil
	}
	dir, err := s.opts.partialDir(s.hub.cache)
	if err != nil {
		return nil, err
	}
	f.part, err = sparse.Open(filepath.Join(dir, e.etag()), sparse.Options{
		Size: e.Size, Identity: e.etag(), Fetch: f.fetch, Full: s.opts.full(s.name(name)),
	})
	if err != nil {
		return nil, err
	}
	if f.part.Have() == e.Size && e.Size > mostAtClose {
		f.settle()
	}
	return f, nil
}

// complete opens the file called name if the cache has all of it.
func (s *snapshot) complete(name string, e entry) (*os.File, error) {
	f, err := os.Open(s.blob(e))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() != e.Size) {
		err = fmt.Errorf("%s has %d bytes, not %d: remove it", f.Name(), info.Size(), e.Size)
	}
	if err == nil {
		err = s.point(name, e)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// point makes the snapshot's name of a file lead to its content.
func (s *snapshot) point(name string, e entry) error {
	at := s.path(name)
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(at), s.blob(e))
	if err != nil {
		return err
	}
	if err := os.Symlink(target, at); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// finish moves a file whose bytes are all there to its final place, if its digest is right.
func (s *snapshot) finish(ctx context.Context, f *file) error {
	blob := s.blob(f.entry)
	lock := filepath.Join(s.hub.cache, ".locks", filepath.Base(s.hub.repository(s.at.repo)), f.entry.etag()+".lock")
	for _, dir := range []string{filepath.Dir(blob), filepath.Dir(lock)} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	unlock, err := lockFile(ctx, lock)
	if err != nil {
		return err
	}
	defer unlock()
	if err := tagCache(s.hub.cache); err != nil {
		return err
	}
	if _, err := os.Stat(blob); err == nil { // another process was first
		return errors.Join(f.part.Remove(), s.point(f.name, f.entry))
	}
	check := func(r io.Reader) error { return f.entry.check(ctx, r) }
	if err := f.part.Finish(blob, check); err != nil {
		return fmt.Errorf("%s: %w", s.name(f.name), err)
	}
	return s.point(f.name, f.entry)
}

// check reads the content, and compares its digest with the etag: SHA-256, or git's blob id.
func (e entry) check(ctx context.Context, r io.Reader) error {
	var h hash.Hash
	if len(e.etag()) == 2*sha256.Size {
		h = sha256.New()
	} else {
		h = sha1.New()
		fmt.Fprintf(h, "blob %d\x00", e.Size)
	}
	for n := int64(1); n > 0; {
		var err error
		if n, err = io.CopyN(h, r, 8<<20); err != nil && err != io.EOF {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != e.etag() {
		return fmt.Errorf("%w: its digest is %s, not %s", layout.ErrChecksum, got, e.etag())
	}
	return nil
}

// tagCache marks the cache's folder for backup programs (bford.info/cachedir), as huggingface_hub
// does.
func tagCache(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "CACHEDIR.TAG"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString("Signature: 8a477f597d28d172789f06886806bc55\n")
	return errors.Join(err, f.Close())
}

// writeWhole writes a small file, which appears whole, and the folders that lead to it. A cache
// that cannot be written to is read all the same.
func writeWhole(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == string(text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return unlessReadOnly(err)
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		return unlessReadOnly(err)
	}
	if _, err := f.Write(text); err != nil {
		return errors.Join(err, f.Abort())
	}
	return f.Commit()
}

func unlessReadOnly(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errReadOnly) {
		return nil
	}
	return err
}

// siblings lists the files beside the model that belong to it and are no weights: configuration,
// tokenizer, generation.
func (s *snapshot) siblings(model string) (names []string) {
	for name := range s.files {
		if path.Dir(name) != path.Dir(model) || strings.Contains(name, manifest.IndexSuffix) {
			continue
		}
		switch path.Ext(name) {
		case ".json", ".txt", ".model", ".jinja", ".tiktoken", ".vocab":
			names = append(names, name)
		}
	}
	return names
}
