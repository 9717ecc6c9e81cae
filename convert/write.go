package convert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/atomicfile"
	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
)

// writer writes one tensor after the other.
type writer struct {
	file     *apr2.FileWriter // of the part being written
	model    *loader.Model
	lease    *loader.Lease
	releases bool // memory of what is written
	compress Compression
	lz4      *lz4block.Writer // where compress asks for it
	buf      buffers
	progress progress
	result   Result
	files    []*atomicfile.File // that are written and have no names yet
}

func newWriter(ctx context.Context, m *loader.Model, lease *loader.Lease, opts *Options, total uint64) *writer {
	w := &writer{model: m, lease: lease, releases: opts.Release, compress: opts.Compress, progress: progress{ctx: ctx, hear: opts.Progress, total: total}}
	if w.compress.compresses() {
		w.lz4 = lz4block.NewWriter(nil, w.compress.level())
	}
	return w
}

// write writes all files, and gives them their names once they are complete.
func (w *writer) write(out *output) error {
	defer func() { // also if a callback panics
		for _, f := range w.files {
			f.Abort() // does nothing once they have their names
		}
	}()
	if err := cmp.Or(w.all(out), w.progress.ctx.Err()); err != nil {
		return err
	}
	if err := w.lease.Changed(); err != nil { // what has been read may be of no file that ever was
		return err
	}
	return atomicfile.CommitAll(w.files...)
}

// all writes the parts and, where there is one, the manifest, which comes last.
func (w *writer) all(out *output) error {
	if out.instead != "" {
		w.files = append(w.files, atomicfile.Remove(out.instead))
	}
	var digest digest
	defer digest.wait()
	for i := range out.parts {
		f, err := out.write(w, &out.parts[i])
		if err != nil {
			return err
		}
		if out.digests {
			if err := digest.begin(w.progress.ctx, f, &out.parts[i]); err != nil {
				return err
			}
		}
	}
	if out.manifest == nil {
		return nil
	}
	if err := digest.wait(); err != nil {
		return err
	}
	return w.manifest(out.path, out.manifest)
}

// create makes a file that write gives its name, or removes however it ends.
func (w *writer) create(path string) (*atomicfile.File, error) {
	f, err := atomicfile.Create(path)
	if err == nil {
		w.files = append(w.files, f)
	}
	return f, err
}

// digest computes the SHA-256 of one shard while the next is written. It reads the file, which
// is in the system's memory still.
type digest struct{ shard *parallel.Group }

const digestPiece = 1 << 20

// begin waits for the shard before.
func (d *digest) begin(ctx context.Context, f *atomicfile.File, p *part) error {
	if err := d.wait(); err != nil {
		return err
	}
	d.shard = new(parallel.Group)
	d.shard.Go(func() error {
		h := sha256.New()
		to := monitor{h, &progress{ctx: ctx}}
		_, err := io.CopyBuffer(struct{ io.Writer }{&to}, io.NewSectionReader(f, 0, int64(p.size)), make([]byte, digestPiece))
		h.Sum(p.sha256[:0])
		return err
	})
	return nil
}

func (d *digest) wait() error {
	if d.shard == nil {
		return nil
	}
	return d.shard.Wait()
}

// apr2Part writes an APR2 file, but for its name, and notes what has become of it.
func (w *writer) apr2Part(p *part) (*atomicfile.File, error) {
	file, err := apr2.Create(p.path, p.tensors, &p.opts)
	if err != nil {
		return nil, about(p.path, err)
	}
	defer file.Abort() // does nothing once Prepare has succeeded
	w.file = file
	for i := range p.plan {
		if err := w.tensor(&p.plan[i]); err != nil {
			return nil, err
		}
	}
	f, err := file.Prepare()
	if err != nil {
		return nil, err
	}
	w.files = append(w.files, f)
	p.size, p.crc32 = file.Size(), file.CRC32()
	w.result.Bytes += p.size
	return f, nil
}

// tensor writes e, compressed if that is asked for and pays.
func (w *writer) tensor(e *encoding) error {
	begun := w.progress.done
	err := apr2.ErrTakeBack
	var lost dequant.Loss
	if w.compress.compresses() {
		lost, err = w.compressed(e)
	}
	if errors.Is(err, apr2.ErrTakeBack) {
		w.progress.done = begun
		lost, err = w.raw(e)
	}
	w.lost(e, lost)
	w.progress.done = begun + w.planned(e)
	return cmp.Or(err, w.release(e))
}

// lost notes what e has lost.
func (w *writer) lost(e *encoding, lost dequant.Loss) {
	if lost.Any() {
		w.result.Lost = append(w.result.Lost, Lost{e.tensor.Name(), e.tensor.Elements(), lost})
	}
}

// release gives back what the source has in memory of e.
func (w *writer) release(e *encoding) error {
	if !w.releases {
		return nil
	}
	return w.model.Release(e.tensor.Name())
}

// planned is how many bytes e has before it is compressed.
func (w *writer) planned(e *encoding) uint64 {
	if w.compress.keepsBlocks(e) {
		return e.tensor.StoredBytes()
	}
	return e.rawBytes()
}

// raw writes e without compressing it.
func (w *writer) raw(e *encoding) (lost dequant.Loss, err error) {
	err = w.file.WriteTensorFunc(func(dst io.Writer) (err error) {
		if w.compress.keepsBlocks(e) {
			_, lost, err = w.copyBlocks(e, dst)
			return err
		}
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
