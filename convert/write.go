package convert

import (
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
	"github.com/tensormap/tensormap/mmapio"
)

// writer carries out a plan: it writes one tensor after the other.
type writer struct {
	*Plan
	compressor         *lz4block.Writer // nil if nothing is to be compressed
	buffers            buffers
	progress           parallel.Progress
	left, leftOfTensor uint64             // bytes that are still to be reported: of all files, and of the tensor that is written
	outputs            []*atomicfile.File // written, or to be removed, and not yet committed
}

// Write writes what the plan says, in constant memory. The model must still be open. Files appear
// under their names once all of them are complete. If Write fails, none appears. Write fails, too, if a file of the
// model has changed since it was opened.
//
// The files must not replace files of the model. Wherever the process ends, Path stands for the old
// model, for nothing, or for the whole of the new one: see [atomicfile.CommitAll]. If two
// conversions write to the same path, in whatever processes, the one that ends later replaces the
// other's whole. Old shards that the new model does not replace stay; Left names them.
func (p *Plan) Write(ctx context.Context) error {
	lease, err := p.model.AcquireContext(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	for i := range p.Tensors {
		p.Tensors[i].source = lease.Of(p.Tensors[i].source) // in place of a lease that has been released
	}
	if err := p.checkPaths(); err != nil {
		return err
	}
	total := p.size()
	w := &writer{Plan: p, progress: parallel.Progress{Report: p.opts.Progress, Total: total}, left: total}
	switch p.opts.Compress {
	case Fast:
		w.compressor = lz4block.NewWriter(nil, lz4block.Fast)
	case High:
		w.compressor = lz4block.NewWriter(nil, lz4block.High)
	}
	defer func() { // runs even if a callback panics
		for _, f := range w.outputs {
			f.Abort() // does nothing to committed files
		}
	}()
	if p.replacedPath != "" {
		w.outputs = append(w.outputs, atomicfile.Remove(p.replacedPath))
	}
	manifestBytes, err := w.writeFiles(ctx)
	if err := cmp.Or(err, context.Cause(ctx)); err != nil {
		return err
	}
	if err := lease.Changed(); err != nil { // the files may mix two versions of the source
		return err
	}
	if err := atomicfile.CommitAll(w.outputs...); err != nil {
		return err
	}
	p.Bytes = p.size() + manifestBytes
	p.Left = p.foreignShards(p.sourceFiles()) // another process may have written some since
	w.progress.Add(w.left)                    // the rest, such as headers
	return nil
}

// writeFiles writes all files, with tensors and the manifest, and appends them to w.outputs. Readers begin with the
// manifest or, without one, with the first shard. writeFiles puts that file last in w.outputs, so that it gets its name last. It
// returns the manifest's size in bytes, or 0 if there is none. It fails if reading or writing does.
func (w *writer) writeFiles(ctx context.Context) (manifestBytes uint64, err error) {
	digest := new(parallel.Group)    // reads a shard for its digest while the next one is written
	defer func() { digest.Wait() }() // lets no goroutine outlive an error
	for i := range w.files {
		f := &w.files[i]
		out, err := w.writeFile(ctx, f)
		if err := cmp.Or(err, digest.Wait()); err != nil {
			return 0, err
		}
		if digest = new(parallel.Group); w.Shards > 0 && w.target.hasDigests {
			digest.Go(func() error { return setDigest(ctx, out, f) })
		}
	}
	if err := digest.Wait(); err != nil || w.Shards == 0 {
		return 0, err
	}
	if w.target.manifest == nil {
		shards := w.outputs[len(w.outputs)-len(w.files):]         // behind the one to remove, if there is one
		copy(shards, append(slices.Clone(shards[1:]), shards[0])) // the first shard leads to the others
		return 0, nil
	}
	text, err := w.target.manifest(w.Plan)
	if err != nil {
		return 0, err
	}
	out, err := w.create(w.Path)
	if err == nil {
		_, err = out.Write(text)
	}
	return uint64(len(text)), err
}

// create creates a temporary file, and adds it to w.outputs. Write commits the file later, and so gives it the name path. For
// atomicfile all files of the model are one set, named by the last element of w.singlePath. If a Write is killed, a later
// Write of the model removes what is left of the set. create fails if the file cannot be created.
func (w *writer) create(path string) (*atomicfile.File, error) {
	f, err := atomicfile.CreateMember(path, filepath.Base(w.singlePath))
	if err == nil {
		w.outputs = append(w.outputs, f)
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
	fileWriter
	WriteBlocksFunc(write func(dst io.Writer) error) error
	CRC32() uint32
}

// writeFile writes f with all its tensors to a temporary file, and returns that. It sets f's size, its CRC32 if the format has
// one, and the digest of its head if the options sign or encrypt. It fails if f cannot hold its metadata, or if a tensor
// cannot be read or written.
func (w *writer) writeFile(ctx context.Context, f *file) (*atomicfile.File, error) {
	out, err := w.create(f.path)
	if err != nil {
		return nil, err
	}
	to, err := w.newFileWriter(out, f)
	if err != nil {
		return nil, withPath(f.path, err)
	}
	for i := range f.tensors {
		if err := w.writeTensor(ctx, to, &f.tensors[i]); err != nil {
			return nil, err
		}
	}
	if err := to.Close(); err != nil {
		return nil, err
	}
	f.size = to.Size()
	if blocks, ok := to.(blocksWriter); ok {
		f.crc32 = blocks.CRC32()
	}
	if w.opts.Signer != nil || w.opts.Encrypter != nil {
		sum, err := apr2.HeadDigest(mmapio.FromReaderAt(out, int64(f.size)))
		if err != nil {
			return nil, err
		}
		f.headDigest = hex.EncodeToString(sum[:])
	}
	return out, out.Prepare()
}

// writeTensor writes t and sets Stored and Lost. It compresses t if the options ask for that. If compression saves too little, it undoes
// what it wrote, and writes t uncompressed. It copies LZ4 blocks of the source for AsStored and, if the blocks save enough, for Fast. It fails
// if reading or writing does, or once ctx is done.
func (w *writer) writeTensor(ctx context.Context, to fileWriter, t *Tensor) error {
	blocks, hasBlocks := to.(blocksWriter)
	compresses := hasBlocks && w.compressor != nil
	copiesBlocks := hasBlocks && t.copiesBlocks() &&
		(w.opts.Compress == AsStored || w.opts.Compress == Fast && pays(t.Bytes, t.decryptedBytes()))
	stored := t.Bytes
	if copiesBlocks {
		stored = t.decryptedBytes()
	}
	w.leftOfTensor = stored
	if compresses {
		w.leftOfTensor = t.Bytes // as the size of the plan counts it
	}
	write := func(dst io.Writer) (err error) {
		dst = &parallel.Writer{Ctx: ctx, W: dst, Wrote: w.count}
		if copiesBlocks {
			_, err = t.source.WriteDecrypted(dst)
		} else {
			t.Lost, err = t.writeTo(dst, w.opts.Importance, &w.buffers)
		}
		return err
	}
	err := apr2.ErrRollback // nothing is written
	if compresses {
		err = blocks.WriteBlocksFunc(func(dst io.Writer) error { // an encrypted file calls this function twice
			if copiesBlocks {
				t.Stored = stored
				return write(dst)
			}
			w.compressor.Reset(dst)
			err := write(w.trial())
			if err == nil {
				err = w.compressor.Close()
			}
			if t.Stored = w.compressor.Stored(); err == nil && !pays(t.Bytes, t.Stored) {
				return apr2.ErrRollback
			}
			return err
		})
	}
	if errors.Is(err, apr2.ErrRollback) {
		t.Stored = stored
		err = to.WriteTensorFunc(write)
	}
	if err == nil {
		w.count(math.MaxInt) // what is left, however many bytes were written
	}
	return err
}

// count reports n written bytes as progress, but no more than are left of the tensor: some bytes are written twice.
func (w *writer) count(n int) {
	if more := min(uint64(n), w.leftOfTensor); more > 0 {
		w.left, w.leftOfTensor = w.left-more, w.leftOfTensor-more
		w.progress.Add(more)
	}
}

const (
	// minSaving is the share of a tensor that compression has to save, as a divisor. A core expands some
	// 6 GB/s. Saving a 32nd therefore pays below 200 MB/s of reading for each core, as from a
	// network or an old disk. Saving less pays nowhere, and costs views in place.
	minSaving = 32
	// minSavedBytes is the number of bytes to save at least, so that the file, with its alignment, becomes smaller.
	minSavedBytes = 64
	// trialBytes is the number of bytes of a tensor that are compressed before trial decides whether that pays.
	trialBytes = 16 << 20
)

// pays reports whether compression from raw bytes to stored bytes saves enough: one part in minSaving, and minSavedBytes.
func pays(raw, stored uint64) bool {
	return stored < raw && raw-stored >= max(raw/minSaving, minSavedBytes)
}

// trial returns a writer to w.compressor. The writer checks once, after trialBytes, whether compression has saved enough so
// far. If not, it fails with apr2.ErrRollback.
func (w *writer) trial() io.Writer {
	isDecided := false
	return writerFunc(func(b []byte) (int, error) {
		n, err := w.compressor.Write(b)
		if err != nil || isDecided || w.compressor.Raw() < trialBytes {
			return n, err
		}
		if isDecided = true; !pays(w.compressor.Raw(), w.compressor.Stored()) {
			return n, apr2.ErrRollback
		}
		return n, nil
	})
}

// withPath adds path to err if it is a layout.FormatError, which names no file. It returns any other err unchanged.
func withPath(path string, err error) error {
	var fe *layout.FormatError
	if errors.As(err, &fe) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return err
}
