package convert

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/tensormap/tensormap/internal/atomicfile"
	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// writer carries out a plan: it writes one tensor after the other.
type writer struct {
	plan       *Plan
	lease      *loader.Lease
	compressor *lz4block.Writer // nil if nothing is to be compressed
	buffers    buffers
	progress   progress
	files      []*atomicfile.File // written, or to be removed, and not yet committed
}

// write writes all files, and gives them their names once all are complete. It also removes replacedPath, if that exists, and sets the plan's
// Bytes, and its Left, the old shards that it leaves. It fails if reading or writing does, if the context is done, or if the source has
// changed. After a failure there is no new file, but for the exception that atomicfile.CommitAll names.
func (w *writer) write() error {
	defer func() { // runs even if a callback panics
		for _, f := range w.files {
			f.Abort() // does nothing to committed files
		}
	}()
	if w.plan.replacedPath != "" {
		w.files = append(w.files, atomicfile.Remove(w.plan.replacedPath))
	}
	manifestBytes, err := w.writeFiles()
	if err := cmp.Or(err, context.Cause(w.progress.ctx)); err != nil {
		return err
	}
	if err := w.lease.Changed(); err != nil { // the files may mix two versions of the source
		return err
	}
	if err := atomicfile.CommitAll(w.files...); err != nil {
		return err
	}
	w.plan.Bytes = w.plan.size() + manifestBytes
	w.plan.Left = w.plan.foreignShards(w.plan.sourceFiles()) // another process may have written some since
	w.progress.Add(w.progress.left)                          // the rest, such as headers
	return nil
}

// writeFiles writes all files, those with tensors and the manifest, and appends them to w.files. Readers begin with the
// manifest or, without one, with the first shard. It puts that file last in w.files, since the last one gets its name last. It
// returns the manifest's size in bytes, or 0 if there is none. It fails if reading or writing does.
func (w *writer) writeFiles() (manifestBytes uint64, err error) {
	digest := new(parallel.Group)    // reads a shard for its digest while the next one is written
	defer func() { digest.Wait() }() // lets no goroutine outlive an error
	for i := range w.plan.files {
		f := &w.plan.files[i]
		out, err := w.writeFile(f)
		if err := cmp.Or(err, digest.Wait()); err != nil {
			return 0, err
		}
		if digest = new(parallel.Group); w.plan.Shards > 0 && w.plan.target.hasDigests {
			digest.Go(func() error { return setDigest(w.progress.ctx, out, f) })
		}
	}
	if err := digest.Wait(); err != nil || w.plan.Shards == 0 {
		return 0, err
	}
	if w.plan.target.writeManifest != nil {
		return w.writeManifest()
	}
	shards := w.files[len(w.files)-len(w.plan.files):]        // behind the one to remove, if there is one
	copy(shards, append(slices.Clone(shards[1:]), shards[0])) // the first shard leads to the others
	return 0, nil
}

// writeManifest writes the file that names the shards, and returns its size in bytes. It fails if writing does.
func (w *writer) writeManifest() (uint64, error) {
	out, err := w.create(w.plan.Path)
	if err != nil {
		return 0, err
	}
	buf := bufio.NewWriter(out)
	if err := cmp.Or(w.plan.target.writeManifest(w.plan, buf), buf.Flush()); err != nil {
		return 0, err
	}
	size, err := out.Seek(0, io.SeekCurrent) // the end of what is written
	return uint64(size), err
}

// create creates a temporary file that gets the name path when write commits it, and adds it to w.files. All files of the
// model are one set for atomicfile. It fails if the file cannot be created.
func (w *writer) create(path string) (*atomicfile.File, error) {
	f, err := atomicfile.CreateMember(path, filepath.Base(w.plan.singlePath))
	if err == nil {
		w.files = append(w.files, f)
	}
	return f, err
}

// setDigest reads out, which has all bytes of f, and sets f.sha256 to their SHA-256. It fails if out cannot be read or ctx ends.
func setDigest(ctx context.Context, out *atomicfile.File, f *file) error {
	h := sha256.New()
	to := parallel.Writer{Ctx: ctx, W: h}
	_, err := io.CopyBuffer(struct{ io.Writer }{&to}, io.NewSectionReader(out, 0, int64(f.size)), make([]byte, 1<<20))
	h.Sum(f.sha256[:0]) // appends to no bytes of the array, and so fills it
	return err
}

// blocksWriter is a fileWriter of a format with compression. WriteBlocksFunc takes LZ4 blocks, and removes them again
// if write returns apr2.ErrRollback.
type blocksWriter interface {
	WriteBlocksFunc(write func(dst io.Writer) error) error
	CRC32() uint32
}

// writeFile writes f with all its tensors to a temporary file, and returns that. It sets f's size, its CRC32 if the format has
// one, and the digest of its head if the options sign or encrypt. It fails if f cannot hold its metadata, or if a tensor
// cannot be read or written.
func (w *writer) writeFile(f *file) (*atomicfile.File, error) {
	out, err := w.create(f.path)
	if err != nil {
		return nil, err
	}
	to, err := w.plan.target.newFileWriter(w.plan, out, f)
	if err != nil {
		return nil, withPath(f.path, err)
	}
	blocks, _ := to.(blocksWriter) // nil for a format without compression
	for i := range f.tensors {
		if err := w.writeTensor(to, blocks, &f.tensors[i]); err != nil {
			return nil, err
		}
	}
	if err := to.Close(); err != nil {
		return nil, err
	}
	if f.size = to.Size(); blocks != nil {
		f.crc32 = blocks.CRC32()
	}
	if w.plan.opts.Signer != nil || w.plan.opts.Encrypter != nil {
		sum, err := apr2.HeadDigest(mmapio.FromReaderAt(out, int64(f.size)))
		if err != nil {
			return nil, err
		}
		f.headDigest = hex.EncodeToString(sum[:])
	}
	return out, out.Prepare()
}

// writeTensor writes t and sets Stored and Lost. It compresses t if the options ask for it and it makes t smaller. to and
// blocks are the same writer. blocks is nil for a format without compression. It fails if reading or writing does.
func (w *writer) writeTensor(to fileWriter, blocks blocksWriter, t *Tensor) error {
	copiesBlocks := blocks != nil && w.plan.opts.Compress == AsStored && t.copiesBlocks()
	stored := t.Bytes
	if copiesBlocks {
		stored = t.decryptedBytes()
	}
	w.progress.leftOfTensor = stored
	err := apr2.ErrRollback // nothing is written
	if blocks != nil && w.compressor != nil {
		err = w.compress(blocks, t)
	}
	if errors.Is(err, apr2.ErrRollback) {
		t.Stored = stored
		err = to.WriteTensorFunc(func(dst io.Writer) (err error) {
			if copiesBlocks {
				_, err = t.source.WriteDecrypted(w.monitor(dst))
			} else {
				t.Lost, err = t.writeTo(w.monitor(dst), w.plan.opts.Importance, &w.buffers)
			}
			return err
		})
	}
	if err == nil {
		w.progress.count(math.MaxInt) // what is left, however many bytes were written
	}
	return err
}

const (
	// minSaving is the share of a tensor that compression has to save, as a divisor. A core expands some
	// 6 GB/s. Saving a 32nd therefore pays below 200 MB/s of reading for each core, as from a
	// network or an old disk. Saving less pays nowhere, and costs views in place.
	minSaving = 32
	// minSavedBytes is the number of bytes to save at least, so that the file, with its alignment, becomes smaller.
	minSavedBytes = 64
	// trialBytes is the number of bytes of a tensor that are compressed before trialWriter decides whether that pays.
	trialBytes = 16 << 20
)

// pays reports whether compression from raw bytes to stored bytes saves enough: one part in minSaving, and minSavedBytes.
func pays(raw, stored uint64) bool {
	return stored < raw && raw-stored >= max(raw/minSaving, minSavedBytes)
}

// compress writes t compressed and sets Stored and Lost. If that saves too little, it returns apr2.ErrRollback, and what it
// wrote is undone. With the option Fast it copies LZ4 blocks of the source, if these save enough. It also fails if reading or
// writing does.
func (w *writer) compress(to blocksWriter, t *Tensor) error {
	copiesBlocks := w.plan.opts.Compress == Fast && t.copiesBlocks() && pays(t.Bytes, t.decryptedBytes())
	return to.WriteBlocksFunc(func(dst io.Writer) (err error) { // an encrypted file calls this function twice
		if copiesBlocks {
			t.Stored = t.decryptedBytes()
			_, err = t.source.WriteDecrypted(w.monitor(dst))
			return err
		}
		w.compressor.Reset(dst)
		t.Lost, err = t.writeTo(w.monitor(&trialWriter{w: w.compressor}), w.plan.opts.Importance, &w.buffers)
		if err == nil {
			err = w.compressor.Close()
		}
		t.Stored = w.compressor.Stored()
		if err == nil && !pays(t.Bytes, t.Stored) {
			return apr2.ErrRollback
		}
		return err
	})
}

// trialWriter passes on what is written to an LZ4 writer until compression turns out not to pay.
type trialWriter struct {
	w         *lz4block.Writer
	isDecided bool // Write has checked whether compression pays
}

// Write compresses b. Once trialBytes have been written, it checks one time whether compression saves enough so far. If not,
// it returns apr2.ErrRollback. It fails if the LZ4 writer does.
func (t *trialWriter) Write(b []byte) (int, error) {
	n, err := t.w.Write(b)
	if err == nil && !t.isDecided && t.w.Raw() >= trialBytes {
		t.isDecided = true
		if !pays(t.w.Raw(), t.w.Stored()) {
			return n, apr2.ErrRollback
		}
	}
	return n, err
}

// progress reports the bytes of elements that are written. Its embedded Add reports bytes, and counts none.
type progress struct {
	ctx                context.Context
	left, leftOfTensor uint64 // bytes that are still to be reported: of all files, and of the tensor that is written
	parallel.Progress
}

// count reports n bytes that were written, or all that are left of the tensor if that is less: some bytes are written twice.
func (p *progress) count(n int) {
	if more := min(uint64(n), p.leftOfTensor); more > 0 {
		p.left, p.leftOfTensor = p.left-more, p.leftOfTensor-more
		p.Add(more)
	}
}

// monitor returns a writer to dst that counts bytes as progress, and fails once the context is done.
func (w *writer) monitor(dst io.Writer) io.Writer {
	return &parallel.Writer{Ctx: w.progress.ctx, W: dst, Wrote: w.progress.count}
}

// withPath adds path to err if it is a layout.FormatError, which names no file. It returns any other err unchanged.
func withPath(path string, err error) error {
	var fe *layout.FormatError
	if errors.As(err, &fe) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return err
}
