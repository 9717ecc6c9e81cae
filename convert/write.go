package convert

import (
	"context"
	"errors"
	"io"

	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader/lz4block"
)

// writer writes one tensor after the other.
type writer struct {
	file     *apr2.FileWriter
	compress Compression
	lz4      *lz4block.Writer // where compress asks for it
	buf      buffers
	progress progress
	result   Result
}

func newWriter(ctx context.Context, file *apr2.FileWriter, opts *Options) *writer {
	w := &writer{file: file, compress: opts.Compress, progress: progress{ctx: ctx, hear: opts.Progress, total: file.Size()}}
	if w.compress != NoCompression {
		w.lz4 = lz4block.NewWriter(nil, w.compress.level())
	}
	return w
}

// tensor writes e, compressed if that is asked for and pays.
func (w *writer) tensor(e *encoding) error {
	begun := w.progress.done
	err := apr2.ErrTakeBack
	var lost uint64
	if w.compress != NoCompression {
		lost, err = w.compressed(e)
	}
	if errors.Is(err, apr2.ErrTakeBack) {
		w.progress.done = begun
		lost, err = w.raw(e)
	}
	if lost > 0 {
		w.result.Lost = append(w.result.Lost, Lost{e.tensor.Name(), lost})
	}
	w.progress.done = begun + e.rawBytes()
	return err
}

func (w *writer) raw(e *encoding) (lost uint64, err error) {
	err = w.file.WriteTensorFunc(func(dst io.Writer) (err error) {
		lost, err = e.writeTo(&monitor{dst, &w.progress}, &w.buf)
		return err
	})
	return lost, err
}

// progress counts the bytes of elements, reports them, and notices that the work is
// cancelled.
type progress struct {
	ctx         context.Context
	hear        func(done, total uint64)
	done, total uint64
	most        uint64 // that has been reported
}

func (p *progress) add(n int) {
	p.done += uint64(n)
	if p.hear != nil && p.done > p.most { // not while a tensor is written a second time
		p.most = p.done
		p.hear(p.done, p.total)
	}
}

func (p *progress) end() {
	if p.hear != nil {
		p.hear(p.total, p.total)
	}
}

// monitor passes a tensor's bytes on in pieces, between which there is progress.
type monitor struct {
	w        io.Writer
	progress *progress
}

const monitorPiece = 8 << 20

func (m *monitor) Write(b []byte) (written int, err error) {
	for first := true; first || len(b) > 0; first = false {
		if err := m.progress.ctx.Err(); err != nil {
			return written, err
		}
		n, err := m.w.Write(b[:min(len(b), monitorPiece)])
		written += n
		if err != nil {
			return written, err
		}
		b = b[n:]
		m.progress.add(n)
	}
	return written, nil
}
