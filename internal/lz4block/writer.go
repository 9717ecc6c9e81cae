package lz4block

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"iter"
	"runtime"
	"sync/atomic"

	"github.com/pierrec/lz4/v4"

	"github.com/tensormap/tensormap/internal/parallel"
)

// Level is how much time a Writer spends on compression.
type Level uint8

// The levels. Their output is read equally fast.
const (
	Fast Level = iota // hundreds of MB/s a core
	High              // LZ4 HC: about ten times slower, and smaller
)

// Writer compresses what is written to it on all cores, and writes the blocks in order to another
// writer. Its memory does not grow with the input. It is not safe for concurrent use.
type Writer struct {
	w       io.Writer
	workers []compressor
	blocks  [][]byte // of a batch, compressed
	pending []byte   // bytes of an incomplete batch
	raw     uint64   // bytes compressed
	stored  uint64   // bytes written
	err     error
}

// batchBlocks is how many blocks a core compresses between two writes.
const batchBlocks = 16

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer, level Level) *Writer {
	n := parallel.Cores()
	wr := &Writer{w: w, workers: make([]compressor, n), blocks: make([][]byte, n*batchBlocks)}
	for i := range wr.workers {
		wr.workers[i] = newCompressor(level)
	}
	return wr
}

// Reset discards what the Writer has, its error included, and makes it write to to.
func (w *Writer) Reset(to io.Writer) {
	w.w, w.pending, w.raw, w.stored, w.err = to, w.pending[:0], 0, 0, nil
}

// Raw returns how many bytes have been compressed.
func (w *Writer) Raw() uint64 { return w.raw }

// Stored returns how many bytes have been written.
func (w *Writer) Stored() uint64 { return w.stored }

// Write compresses b. Whole batches are read where they are. A fault, if b is mapped, panics in
// the caller's goroutine, as it would without the workers.
func (w *Writer) Write(b []byte) (n int, err error) {
	for len(b) > 0 && w.err == nil {
		size := len(w.blocks) * Size
		if len(w.pending) == 0 && len(b) >= size {
			w.flush(b[:size])
			b, n = b[size:], n+size
			continue
		}
		if w.pending == nil {
			w.pending = make([]byte, 0, size)
		}
		take := min(len(b), size-len(w.pending))
		w.pending = append(w.pending, b[:take]...)
		b, n = b[take:], n+take
		if len(w.pending) == size {
			w.flushPending()
		}
	}
	return n, w.err
}

// Close compresses and writes what is pending. It does not close the other writer.
func (w *Writer) Close() error {
	if w.err == nil && len(w.pending) > 0 {
		w.flushPending()
	}
	return w.err
}

// flushPending compresses and writes the pending bytes.
func (w *Writer) flushPending() {
	w.flush(w.pending)
	w.pending = w.pending[:0]
}

// flush compresses b, a batch at most, and writes its blocks. An error is left in w.err.
func (w *Writer) flush(b []byte) {
	blocks := w.blocks[:Count(uint64(len(b)))]
	if w.err = w.compress(blocks, b); w.err != nil {
		return
	}
	w.raw += uint64(len(b))
	for _, block := range blocks {
		n, err := w.w.Write(block)
		w.stored += uint64(n)
		if w.err = err; err != nil {
			return
		}
	}
}

// compress sets blocks to the compressed blocks of b, on as many cores as there are workers.
func (w *Writer) compress(blocks [][]byte, b []byte) error {
	var worker atomic.Int32
	return parallel.Each(len(w.workers), parallel.Range(uint64(len(blocks))), func(items iter.Seq[uint64]) (err error) {
		c := w.workers[worker.Add(1)-1]
		for i := range items {
			src := b[i*Size : min(uint64(len(b)), (i+1)*Size)]
			if blocks[i], err = encode(blocks[i], src, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// compressor compresses blocks at one level.
type compressor interface {
	CompressBlock(src, dst []byte) (int, error)
}

// newCompressor returns a compressor of a level.
func newCompressor(level Level) compressor {
	if level == High {
		return &lz4.CompressorHC{Level: lz4.Level9}
	}
	return new(lz4.Compressor)
}

// encode returns the length and the LZ4 block of src, which has Size bytes at most. It uses the memory of dst unless
// that is nil.
func encode(dst, src []byte, c compressor) ([]byte, error) {
	if dst == nil {
		dst = make([]byte, LengthBytes+MaxStored)
	}
	b := dst[:cap(dst)]
	n, err := c.CompressBlock(src, b[LengthBytes:])
	if err != nil {
		// Some compressors take lost memory for bad input: touch it, for the fault.
		runtime.KeepAlive(crc32.ChecksumIEEE(src))
		return dst, err
	}
	binary.LittleEndian.PutUint32(b, uint32(n))
	return b[:LengthBytes+n], nil
}
