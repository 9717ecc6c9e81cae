package trust

import (
	"cmp"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"os"
	pathpkg "path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/internal/atomicfile"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
)

// SignOptions tune Sign. Nil and zero fields mean the defaults.
type SignOptions struct {
	// Chain makes the bundle one by certificate: the signer's certificate, then the certificates between it and
	// a root.
	Chain []*x509.Certificate
	// Ignore lists paths, relative to the directory, that are not signed, with all below them. The
	// specification has them plain: *, ? and [ are errors.
	Ignore []string
	// AllowSymlinks follows symbolic links to files. Without it they are errors.
	AllowSymlinks bool
	// Warn, if set, is called for links that lead out of the directory, if AllowSymlinks follows them.
	Warn func(error)
	// ChunkBytes is the size of the chunks that have digests: a power of two from layout.MinChunk to
	// layout.MaxChunk, and such that no file has more than layout.MaxChunks. 0 means 4 MiB, and more for
	// files beyond 128 GiB. Smaller chunks make the first touch of a row cheaper, and the bundle larger.
	ChunkBytes uint64
	// Progress, if set, is called with the number of bytes read and of all, by one goroutine at a time.
	Progress func(done, total uint64)
}

// Sign signs the files below the directory at root, or one file, and writes the bundle to path. A
// bundle inside the directory is itself not signed. Of git's files at the top none are. In the model's
// directory path must be no symbolic link: whoever may write there could have planted it. A file at path is replaced
// only if it is a bundle or empty, and so neither the model nor the key.
func Sign(ctx context.Context, root, path string, key crypto.Signer, opts *SignOptions) error {
	if opts == nil {
		opts = &SignOptions{}
	}
	if err := checkReplaceable(path); err != nil {
		return err
	}
	ignored := append(slices.Clone(defaultIgnored), opts.Ignore...)
	if own := relativeTo(root, path); own != "" {
		ignored = append(ignored, own)
	}
	for i, p := range ignored {
		ignored[i] = pathpkg.Clean(p)
		if err := checkName(ignored[i]); err != nil || strings.ContainsAny(p, "*?[") {
			return inFile(root, invalid("the path to leave out %s is not plain: relative to the directory, without *, ? and [", layout.Quote(p)))
		}
	}
	slices.Sort(ignored)
	ignored = slices.Compact(ignored)
	rule := noLinks
	if opts.AllowSymlinks {
		rule = warnedLinks(opts.Warn)
	}
	names, err := listFiles(root, isAmong(ignored), rule)
	if err == nil && len(names) == 0 {
		err = errors.New("no file to sign in it")
	}
	if err == nil {
		err = checkCaseCollisions(names)
	}
	if err != nil {
		return inFile(root, err)
	}
	files, err := digestFiles(ctx, root, names, opts)
	if err != nil {
		return err
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	if names[0] == "." {
		names, ignored = []string{filepath.Base(absolute)}, nil
	}
	payload, err := encodeStatement(filepath.Base(absolute), names, files, ignored, opts.AllowSymlinks)
	if err != nil {
		return err
	}
	if _, err := ParseStatement(payload); err != nil { // nobody could verify the bundle
		return inFile(root, err)
	}
	bundle, err := signBundle(payload, key, opts.Chain)
	if err != nil {
		return err
	}
	create, dir := atomicfile.Create, root
	if info, err := os.Stat(root); err == nil && !info.IsDir() {
		dir = filepath.Dir(root)
	}
	if relativeTo(dir, path) != "" {
		create = atomicfile.CreateUnlinked
	}
	out, err := create(path)
	if err != nil {
		return err
	}
	defer out.Abort()
	if _, err := out.Write(append(bundle, '\n')); err != nil {
		return err
	}
	return out.Commit()
}

// checkReplaceable returns an error if there is a regular file at path that is neither a bundle, of whatever version, nor empty.
func checkReplaceable(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil // creating it tells what is wrong
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var old struct {
		MediaType string `json:"mediaType"`
	}
	err = json.NewDecoder(io.LimitReader(f, int64(bundleLimits.HeaderBytes))).Decode(&old)
	if err != nil || !strings.HasPrefix(old.MediaType, anyBundleType) {
		return &fs.PathError{Op: "write", Path: path, Err: errors.New("it exists and is no bundle: remove it, or write elsewhere")}
	}
	return nil
}

// digestFiles returns the size, digest and chunk digests of each of the files called names below root. It reads several at a time. It
// fails if a file cannot be read, changes meanwhile, or has too many chunks.
func digestFiles(ctx context.Context, root string, names []string, opts *SignOptions) ([]signed, error) {
	files := make([]signed, len(names))
	var jobs []hashJob
	for i, name := range names {
		path := pathBelow(root, name)
		size, err := fileSize(path)
		if err != nil {
			return nil, err
		}
		f := &files[i]
		f.chunks = &chunks{cmp.Or(opts.ChunkBytes, layout.ChunkFor(size)), []byte{}}
		if !layout.ChunkOK(f.chunks.Size, size) {
			return nil, fmt.Errorf("%s: %w: a file of %d bytes in chunks of %d", path, layout.ErrLimit, size, f.chunks.Size)
		}
		// Two workers read one file: the digest of the whole is as much work as the digests of the chunks.
		jobs = append(jobs, hashJob{path, size, size, sha256.New, &f.digest, nil}, hashJob{path, size, f.chunks.Size, sha256.New, &f.chunks.Sums, nil})
	}
	return files, runHashes(ctx, jobs, opts.Progress)
}

// hashJob reads a file for the digests of its chunks. A chunk of the file's size gives the digest of the file.
type hashJob struct {
	path  string
	size  uint64 // which the file must have
	chunk uint64 // bytes of each chunk but the last
	hash  func() hash.Hash
	sums  *[]byte // receives the digests, one after the other
	want  []byte  // what they must be, to verify the file
}

// runHashes runs the jobs on all cores, and reports progress unless that is nil. It fails if a file cannot be read or has another size, or
// when ctx ends.
func runHashes(ctx context.Context, jobs []hashJob, progress func(done, total uint64)) error {
	p := parallel.Progress{Report: progress}
	for _, j := range jobs {
		p.Total += j.size
	}
	n := uint64(len(jobs))
	return parallel.Each(parallel.Workers(n), parallel.Range(n), func(items iter.Seq[uint64]) error {
		buf := make([]byte, 1<<20)
		for i := range items {
			if err := jobs[i].run(ctx, buf, &p); err != nil {
				return err
			}
		}
		return nil
	})
}

// run reads the file through buf, and appends the digests of its chunks to j.sums. It fails if the file cannot be read or has another
// size than j.size, or when ctx ends.
func (j *hashJob) run(ctx context.Context, buf []byte, p *parallel.Progress) error {
	f, err := os.Open(j.path)
	if err != nil {
		return err
	}
	defer f.Close()
	h, changed := j.hash(), fmt.Errorf("%s: %w: it changed while it was read", j.path, layout.ErrChecksum)
	to := &parallel.Writer{Ctx: ctx, W: h, Wrote: func(n int) { p.Add(uint64(n)) }}
	if j.size == 0 && j.chunk == 0 { // the digest of an empty file
		*j.sums = h.Sum(nil)
	}
	for off := uint64(0); off < j.size; off += j.chunk {
		want := int64(min(j.chunk, j.size-off))
		if n, err := io.CopyBuffer(to, io.LimitReader(f, want), buf); err != nil {
			return err
		} else if n < want {
			return changed
		}
		*j.sums = h.Sum(*j.sums)
		h.Reset()
	}
	if n, _ := f.Read(buf[:1]); n > 0 {
		return changed
	}
	return nil
}
