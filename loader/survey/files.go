package survey

import (
	"context"
	"crypto/sha256"

	"github.com/tensormap/tensormap/loader"
)

// FileDigest holds the SHA-256 of a whole file, as sha256sum makes it and model hubs show it.
type FileDigest struct {
	File   loader.FileInfo
	Digest Digest
}

// HashFiles makes digests of m's files, and hands them to each in the order of Model.Files. It
// reads files into memory of their own, however m was opened, and several at once.
// Options.Filter has no part in it. Errors and calls of each are as for [Stats], but a file that
// cannot be read ends the work.
func HashFiles(ctx context.Context, m *loader.Model, opts *Options, each func(*FileDigest) error) error {
	if opts == nil {
		opts = &Options{}
	}
	out := newDelivery(ctx, opts, each)
	return out.run(func(yield func(task) bool) {
		for i, f := range m.Files() {
			if !yield(&fileTask{out: out, model: m, file: i, digest: &FileDigest{File: f}}) {
				return
			}
		}
	}, m)
}

// fileTask makes the digest of one file.
type fileTask struct {
	out    *delivery[FileDigest]
	model  *loader.Model
	file   int
	digest *FileDigest
	begun  bool
}

func (t *fileTask) weight() uint64 { return t.digest.File.Size }

func (t *fileTask) begin(context.Context) (parts uint64) {
	if t.begun {
		return 0
	}
	t.begun = true
	return 1
}

func (t *fileTask) do(w *worker, _ uint64) error {
	h := sha256.New()
	for off, size := uint64(0), t.digest.File.Size; off < size; {
		b := w.a.byteRoom(min(pieceBytes, size-off))
		if err := t.model.ReadFileAt(t.out.ctx, t.file, b, off); err != nil {
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

func (t *fileTask) end(err error) {
	if err != nil {
		t.out.cancel(err)
		return
	}
	t.out.add(uint64(t.file), t.digest)
}
