package survey

import (
	"cmp"
	"context"
	"crypto/sha256"

	"github.com/tensormap/tensormap/loader"
)

// FileDigest is the SHA-256 of a whole file, as sha256sum makes it and model hubs show it.
type FileDigest struct {
	File   loader.FileInfo
	Digest Digest
}

// HashFiles makes digests of m's files, in the order of Model.Files. Files are read into memory
// of their own, however m was opened; several files are read at once. Options.Filter has no part
// in it. A file that has changed since it was opened is an error.
func HashFiles(ctx context.Context, m *loader.Model, opts *Options) ([]FileDigest, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := m.Changed(); err != nil {
		return nil, err
	}
	files := m.Files()
	digests := make([]FileDigest, len(files))
	errs := make([]error, len(files))
	todo := each(len(files), func(i int) uint64 { return files[i].Size }, func(i int) task {
		digests[i].File = files[i]
		return &fileTask{ctx: ctx, model: m, file: i, digest: &digests[i], err: &errs[i]}
	})
	if err := cmp.Or(run(ctx, opts, todo, m), cmp.Or(errs...)); err != nil {
		return nil, err
	}
	return digests, nil
}

// fileTask is the work on one file.
type fileTask struct {
	ctx    context.Context
	model  *loader.Model
	file   int
	digest *FileDigest
	err    *error
	begun  bool
}

func (t *fileTask) weight() uint64 { return t.digest.File.Size }

func (t *fileTask) begin() (parts uint64) {
	if t.begun {
		return 0
	}
	t.begun = true
	return 1
}

func (t *fileTask) do(w *worker, _ uint64) error {
	h := sha256.New()
	for off, size := uint64(0), t.digest.File.Size; off < size; {
		b := w.a.byteRoom(min(chunkBytes, size-off))
		if err := t.model.ReadFileAt(t.ctx, t.file, b, off); err != nil {
			return err
		}
		h.Write(b)
		off += uint64(len(b))
		if err := w.saw(uint64(len(b))); err != nil {
			return err
		}
	}
	t.digest.Digest = *digestOf(h)
	return nil
}

func (t *fileTask) end(err error) { *t.err = err }
