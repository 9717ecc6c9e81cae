package trust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// VerifyOptions tune Statement.Verify. Nil and zero fields mean the defaults.
type VerifyOptions struct {
	// Bundle is the path of the bundle. It may lie inside the directory, and is no unsigned file there.
	Bundle string
	// Ignore lists further paths, relative to the directory, that need not be signed, with all below them. Files
	// that are signed are compared all the same.
	Ignore []string
	// IgnoreUnsigned lets files pass that the signature does not list.
	IgnoreUnsigned bool
	// Progress, if set, is called with the number of bytes read and of all, by one goroutine at a time.
	Progress func(done, total uint64)
}

// Verify reads every file below the directory at root, or one file, and compares it with the
// statement: the digest of the whole and the digests of the chunks. The error joins one error for each file that is
// missing, too many, or not the signed one. Git's files at the top, and what the statement ignores, need
// not be signed.
func (s *Statement) Verify(ctx context.Context, root string, opts *VerifyOptions) error {
	if opts == nil {
		opts = &VerifyOptions{}
	}
	ignored := slices.Concat(defaultIgnored, s.IgnorePaths, opts.Ignore)
	if own := relativeTo(root, opts.Bundle); opts.Bundle != "" && own != "" {
		ignored = append(ignored, own)
	}
	rule := cacheLinks
	if s.AllowSymlinks {
		rule = warnedLinks(nil)
	}
	ignores := isAmong(ignored)
	found, err := listFiles(root, func(name string) bool { return ignores(name) && !s.listsBelow(name) }, rule)
	if err != nil {
		return inFile(root, err)
	}
	paths := s.pathsOf(root, found)
	var errs []error
	var jobs []hashJob
	for _, name := range s.names {
		f, path := s.files[name], paths[name]
		delete(paths, name)
		if path == "" {
			errs = append(errs, fmt.Errorf("%s: %w: the signature lists it", pathBelow(root, name), layout.ErrNotFound))
			continue
		}
		size, err := fileSize(path)
		if err == nil && f.digest == nil && size != f.size {
			err = fmt.Errorf("%s: %w: %d bytes, but the signed file had %d", path, layout.ErrChecksum, size, f.size)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if f.digest != nil {
			jobs = append(jobs, hashJob{path, size, size, s.newHash, new([]byte), f.digest})
		}
		if f.chunks != nil {
			jobs = append(jobs, hashJob{path, size, f.chunks.Size, s.chunkHash, new([]byte), f.chunks.Sums})
		}
	}
	for _, path := range slices.Sorted(maps.Values(paths)) {
		size, err := fileSize(path)
		isEmptyInShards := s.granularity == layout.ByShard && err == nil && size == 0
		if !opts.IgnoreUnsigned && !isEmptyInShards {
			errs = append(errs, fmt.Errorf("%s: %w: the signature does not list it", path, ErrUnsigned))
		}
	}
	if err := runHashes(ctx, jobs, opts.Progress); err != nil {
		return err
	}
	wrong := ""
	for _, j := range jobs {
		if !bytes.Equal(*j.sums, j.want) && j.path != wrong { // once a file
			wrong = j.path
			errs = append(errs, j.mismatch())
		}
	}
	return errors.Join(errs...)
}

// listsBelow reports whether the statement lists the file of a name, or one in the directory of that name.
func (s *Statement) listsBelow(name string) bool {
	i, listed := slices.BinarySearch(s.names, name+"/")
	return listed || s.Lists(name) || i < len(s.names) && strings.HasPrefix(s.names[i], name+"/")
}

// pathsOf returns the paths of the files called found below root, by the names under which the statement lists them. A statement about
// one file has it as ".", or under its name.
func (s *Statement) pathsOf(root string, found []string) map[string]string {
	paths := make(map[string]string)
	for _, name := range found {
		path := pathBelow(root, name)
		if only := s.names[0]; len(s.names) == 1 && len(found) == 1 && (only == "." || name == "." && only == filepath.Base(path)) {
			name = only
		}
		paths[name] = path
	}
	return paths
}

// fileSize returns the size of the file at path in bytes.
func fileSize(path string) (uint64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return uint64(info.Size()), nil
}

// mismatch returns the error of a file whose digests differ from j.want. It names the first chunk that differs.
func (j *hashJob) mismatch() error {
	got, want, n := *j.sums, j.want, j.hash().Size()
	for i := 0; (i+1)*n <= min(len(got), len(want)); i++ {
		g, w := got[i*n:][:n], want[i*n:][:n]
		switch {
		case bytes.Equal(g, w):
		case len(want) == n:
			return fmt.Errorf("%s: %w: it has %x, but the signed file had %x", j.path, layout.ErrChecksum, g, w)
		default:
			return fmt.Errorf("%s: %w: chunk %d, from offset %d, has %x, but the signed file had %x", j.path, layout.ErrChecksum, i, uint64(i)*j.chunk, g, w)
		}
	}
	return fmt.Errorf("%s: %w: %d chunks, but the signed file had %d", j.path, layout.ErrChecksum, len(got)/n, len(want)/n)
}
