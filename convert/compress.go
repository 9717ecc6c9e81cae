package convert

import (
	"io"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/quantize"
)

// Compression says how tensors are compressed.
type Compression uint8

// The kinds of compression. All are read equally fast.
const (
	NoCompression Compression = iota
	Fast                      // LZ4, at hundreds of MB/s a core
	High                      // LZ4 HC: some ten times slower, and smaller
	AsStored                  // what is compressed stays so, block by block, and nothing else is
)

// compresses reports whether there is anything to be compressed.
func (c Compression) compresses() bool { return c == Fast || c == High }

// keepsBlocks reports whether t's blocks are written as they are.
func (c Compression) keepsBlocks(t *Tensor) bool {
	return c == AsStored && t.copied() && t.inBlocks()
}

// inBlocks reports whether the source is compressed, encrypted or not.
func (t *Tensor) inBlocks() bool {
	e, _ := t.source.Decrypted()
	return e == layout.LZ4
}

// content returns the number of bytes of the source without encryption.
func (t *Tensor) content() uint64 {
	_, n := t.source.Decrypted()
	return n
}

const (
	// leastSaving is the part of a tensor that compressing has to save. A core expands some
	// 6 GB/s. Saving a 32nd therefore pays below 200 MB/s of reading for each core, as from a
	// network or an old disk. Saving less pays nowhere, and costs views in place.
	leastSaving = 32
	// leastBytes must be saved for the file, with its alignment, to become smaller.
	leastBytes = 64
	// trial counts the bytes of a tensor that are compressed before attempt asks whether it pays.
	trial = 16 << 20
)

// pays reports whether storing a tensor of raw bytes as stored bytes is worth it: see leastSaving and leastBytes.
func pays(raw, stored uint64) bool {
	return stored < raw && raw-stored >= max(raw/leastSaving, leastBytes)
}

// compressed writes t compressed, or returns apr2.ErrRollback if that does not pay. Blocks of the
// source are copied if they are as good as those that Fast makes.
func (w *writer) compressed(file blocksWriter, t *Tensor) error {
	copies := w.plan.opts.Compress == Fast && t.copied() && t.inBlocks() && pays(t.Bytes, t.content())
	begun := w.progress.done
	return file.WriteBlocksFunc(func(dst io.Writer) error {
		w.progress.done = begun // for an encrypted file this is called twice
		if copies {
			t.Stored = t.content()
			_, err := t.copyBlocks(w.monitor(dst), nil)
			return err
		}
		w.lz4.Reset(dst)
		lost, err := t.writeTo(w.monitor(&attempt{w: w.lz4}), &w.buf)
		if err == nil {
			err = w.lz4.Close()
		}
		t.noteLoss(lost)
		t.Stored = w.lz4.Stored()
		if err == nil && !pays(t.Bytes, t.Stored) {
			return apr2.ErrRollback
		}
		return err
	})
}

// copyBlocks writes the blocks of the source as they are.
func (t *Tensor) copyBlocks(dst io.Writer, _ *buffers) (lost quantize.Loss, err error) {
	_, err = t.source.WriteDecrypted(dst)
	return lost, err
}

// attempt compresses, and gives up if that does not pay.
type attempt struct {
	w     *lz4block.Writer
	asked bool
}

func (a *attempt) Write(b []byte) (int, error) {
	n, err := a.w.Write(b)
	if err == nil && !a.asked && a.w.Raw() >= trial {
		a.asked = true
		if !pays(a.w.Raw(), a.w.Stored()) {
			return n, apr2.ErrRollback
		}
	}
	return n, err
}
