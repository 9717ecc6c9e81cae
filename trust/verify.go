package trust

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/internal/parallel"
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
// statement: the digest of the whole and those of the chunks. The error joins one error for each file that is
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
		rule = anyLinks
	}
	ignores := isAmong(ignored)
	found, err := listFiles(root, func(name string) bool { return ignores(name) && !s.listsBelow(name) }, rule)
	if err != nil {
		return inFile(root, err)
	}
	paths, errs := s.pathsOf(root, found, opts.IgnoreUnsigned)
	var jobs []hashJob
	var wants [][]byte
	p := parallel.Progress{Report: opts.Progress}
	for _, name := range s.names {
		f, file := s.files[name], paths[name]
		if file == "" {
			continue
		}
		size, err := checkedSize(file, f)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		add := func(chunk uint64, newHash func() hash.Hash, want []byte) {
			jobs, wants = append(jobs, hashJob{file, size, chunk, newHash, new([]byte)}), append(wants, want)
			p.Total += size
		}
		if f.digest != nil {
			add(size, s.newHash, f.digest)
		}
		switch {
		case f.chunks == nil:
		case s.granularity == layout.ByFile:
			add(f.chunks.size, sha256.New, f.chunks.sums)
		default:
			add(f.chunks.size, s.newHash, f.chunks.sums)
		}
	}
	if err := runHashes(ctx, jobs, &p); err != nil {
		return err
	}
	wrong := ""
	for i, j := range jobs {
		if !bytes.Equal(*j.sums, wants[i]) && j.path != wrong { // once a file
			wrong = j.path
			errs = append(errs, mismatchError(j, wants[i]))
		}
	}
	return errors.Join(errs...)
}

// listsBelow reports whether the statement lists the file of a name, or one in the directory of that name.
func (s *Statement) listsBelow(name string) bool {
	i, listed := slices.BinarySearch(s.names, name+"/")
	return listed || s.Lists(name) || i < len(s.names) && strings.HasPrefix(s.names[i], name+"/")
}

// pathsOf returns the paths of the signed files by name, and an error for each that is missing and for each unsigned
// one. found are the names of the files below root. A statement about one file has it as ".", or under its name.
func (s *Statement) pathsOf(root string, found []string, ignoreUnsigned bool) (paths map[string]string, errs []error) {
	paths = make(map[string]string)
	if len(s.names) == 1 && len(found) == 1 {
		file := pathBelow(root, found[0])
		if name := s.names[0]; name == "." || found[0] == "." && name == filepath.Base(file) {
			paths[name] = file
			return paths, nil
		}
	}
	for _, name := range s.names {
		if _, ok := slices.BinarySearch(found, name); ok {
			paths[name] = pathBelow(root, name)
		} else {
			errs = append(errs, fmt.Errorf("%s: %w: the signature lists it", pathBelow(root, name), layout.ErrNotFound))
		}
	}
	for _, name := range found {
		info, err := os.Stat(pathBelow(root, name))
		isEmptyInShards := s.granularity == layout.ByShard && err == nil && info.Size() == 0
		if s.files[name] == nil && !ignoreUnsigned && !isEmptyInShards {
			errs = append(errs, fmt.Errorf("%s: %w: the signature does not list it", pathBelow(root, name), ErrUnsigned))
		}
	}
	return paths, errs
}

// checkedSize returns the size of the file at path. It fails if the file does not exist, or has another size than f tells, if it does.
func checkedSize(path string, f *signed) (uint64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%s: %w: the signature lists it", path, layout.ErrNotFound)
	}
	if err != nil {
		return 0, err
	}
	size := uint64(info.Size())
	if f.hasSize && size != f.size {
		return 0, fmt.Errorf("%s: %w: %d bytes, but the signed file had %d", path, layout.ErrChecksum, size, f.size)
	}
	return size, nil
}

// mismatchError returns the error of a file whose digests differ from want. It names the first chunk that differs.
func mismatchError(j hashJob, want []byte) error {
	got, n := *j.sums, j.hash().Size()
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
