package convert

import (
	"io"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
)

// Compression says how tensors are compressed.
type Compression uint8

// The kinds of compression. What they write is read equally fast.
const (
	NoCompression Compression = iota
	Fast                      // LZ4, at hundreds of MB/s a core
	High                      // LZ4 HC: some ten times slower, and smaller
	AsStored                  // what is compressed stays so, block by block, and nothing else is
)

// compresses reports whether there is anything to be compressed.
func (c Compression) compresses() bool { return c == Fast || c == High }

// keepsBlocks reports whether e's blocks are written as they are.
func (c Compression) keepsBlocks(e *encoding) bool {
	return c == AsStored && e.copied() && e.tensor.Encoding() == layout.LZ4
}

func (c Compression) level() lz4block.Level {
	if c == High {
		return lz4block.High
	}
	return lz4block.Fast
}

// Compressed counts compressed tensors.
type Compressed struct {
	Tensors     int
	Raw, Stored uint64 // their bytes, of elements and in the file
}

const (
	// leastSaving is the part of a tensor that compressing has to save. A core expands some
	// 6 GB/s, so to save a 32nd pays where that reads less than 200 MB/s for each core, as
	// a network or an old disk does; to save less pays nowhere, and costs views in place.
	leastSaving = 32
	// leastBytes is what has to be saved for the file, with its alignment, to be smaller.
	leastBytes = 64
	// trial is how much of a tensor is compressed before it is first asked whether it pays.
	trial = 16 << 20
)

// pays reports whether raw bytes are worth to be stored as so many.
func pays(raw, stored uint64) bool {
	return stored < raw && raw-stored >= max(raw/leastSaving, leastBytes)
}

// rawBytes is the size of e's elements as they are written.
func (e *encoding) rawBytes() uint64 {
	n, err := e.dtype.Size(e.shape)
	if err != nil {
		return 0 // apr2.Create has made sure that there is none
	}
	return n
}

// compressed writes e compressed, or answers apr2.ErrTakeBack where that does not pay.
func (w *writer) compressed(e *encoding) (lost dequant.Loss, err error) {
	write := w.compressElements
	if w.asStored(e) {
		write = w.copyBlocks
	}
	var stored uint64
	err = w.file.WriteBlocksFunc(func(dst io.Writer) (err error) {
		stored, lost, err = write(e, dst)
		if err == nil && !pays(e.rawBytes(), stored) {
			return apr2.ErrTakeBack
		}
		return err
	})
	if err == nil {
		c := &w.result.Compressed
		c.Tensors, c.Raw, c.Stored = c.Tensors+1, c.Raw+e.rawBytes(), c.Stored+stored
	}
	return lost, err
}

// asStored reports whether the blocks of the source are as good as those to be made.
func (w *writer) asStored(e *encoding) bool {
	t := e.tensor
	return w.compress == Fast && e.copied() && t.Encoding() == layout.LZ4 && pays(t.RawBytes(), t.StoredBytes())
}

func (w *writer) copyBlocks(e *encoding, dst io.Writer) (stored uint64, lost dequant.Loss, err error) {
	n, err := e.tensor.WriteStored(&monitor{dst, &w.progress})
	return uint64(n), lost, err
}

func (w *writer) compressElements(e *encoding, dst io.Writer) (stored uint64, lost dequant.Loss, err error) {
	w.lz4.Reset(dst)
	lost, err = e.writeTo(&monitor{&attempt{w: w.lz4}, &w.progress}, &w.buf)
	if err == nil {
		err = w.lz4.Close()
	}
	return w.lz4.Stored(), lost, err
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
			return n, apr2.ErrTakeBack
		}
	}
	return n, err
}
