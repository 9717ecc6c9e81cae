package convert

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"github.com/tensormap/tensormap/internal/atomicfile"
	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
)

// writer writes one tensor after the other.
type writer struct {
	plan     *Plan
	lease    *loader.Lease
	lz4      *lz4block.Writer // if tensors are compressed
	buf      buffers
	progress progress
	files    []*atomicfile.File // that are written and have no names yet
}

func newWriter(ctx context.Context, p *Plan, lease *loader.Lease) *writer {
	w := &writer{plan: p, lease: lease, progress: progress{ctx: ctx, Progress: parallel.Progress{Report: p.opts.Progress, Total: p.size()}}}
	switch p.opts.Compress {
	case Fast:
		w.lz4 = lz4block.NewWriter(nil, lz4block.Fast)
	case High:
		w.lz4 = lz4block.NewWriter(nil, lz4block.High)
	}
	return w
}

// write writes all files, and gives them their names once they are complete.
func (w *writer) write() error {
	defer func() { // also if a callback panics
		for _, f := range w.files {
			f.Abort() // does nothing once they have their names
		}
	}()
	if w.plan.instead != "" {
		w.files = append(w.files, atomicfile.Remove(w.plan.instead))
	}
	manifest, err := w.parts()
	if err := cmp.Or(err, context.Cause(w.progress.ctx)); err != nil {
		return err
	}
	if err := w.lease.Changed(); err != nil { // the files may mix two versions of the source
		return err
	}
	if err := atomicfile.CommitAll(w.files...); err != nil {
		return err
	}
	w.plan.Bytes = w.plan.size() + manifest
	w.plan.Left = w.plan.leftShards(w.plan.sourceFiles()) // another process may have written some since
	w.progress.end()
	return nil
}

// parts writes the files and, after shards, the manifest, whose size it returns.
func (w *writer) parts() (manifest uint64, err error) {
	digested := func() error { return nil } // waits for the shard before
	defer func() { digested() }()
	for i := range w.plan.parts {
		s := &w.plan.parts[i]
		f, err := w.part(s)
		if err != nil {
			return 0, err
		}
		if w.plan.Shards > 0 && w.plan.target.digests {
			if err := digested(); err != nil {
				return 0, err
			}
			digested = digest(w.progress.ctx, f, s)
		}
	}
	if err := digested(); err != nil || w.plan.Shards == 0 {
		return 0, err
	}
	if w.plan.target.manifest == nil { // the first part leads to the others
		parts := w.files[len(w.files)-len(w.plan.parts):]
		copy(parts, append(slices.Clone(parts[1:]), parts[0]))
		return 0, nil
	}
	f, err := w.create(w.plan.Path)
	if err != nil {
		return 0, err
	}
	var size counter
	to := bufio.NewWriter(io.MultiWriter(f, &size))
	if err := w.plan.target.manifest(w.plan, to); err != nil {
		return 0, err
	}
	err = to.Flush()
	return uint64(size), err
}

// create makes a file that write names or removes.
func (w *writer) create(path string) (*atomicfile.File, error) {
	f, err := atomicfile.CreateMember(path, filepath.Base(w.plan.whole))
	if err == nil {
		w.files = append(w.files, f)
	}
	return f, err
}

// digest computes the SHA-256 of one shard while the next is written. The file that it reads is
// still in the page cache. wait waits for the end.
func digest(ctx context.Context, f *atomicfile.File, p *part) (wait func() error) {
	const piece = 1 << 20
	group := new(parallel.Group)
	group.Go(func() error {
		h := sha256.New()
		to := parallel.Writer{Ctx: ctx, W: h}
		_, err := io.CopyBuffer(struct{ io.Writer }{&to}, io.NewSectionReader(f, 0, int64(p.size)), make([]byte, piece))
		h.Sum(p.sha256[:0])
		return err
	})
	return group.Wait
}

// fileWriter takes the tensors of a file one after the other.
type fileWriter interface {
	WriteTensorFunc(write func(dst io.Writer) error) error
	Size() uint64
	Close() error
}

// blocksWriter is a fileWriter that also takes blocks of compressed tensors, and takes them back.
type blocksWriter interface {
	WriteBlocksFunc(write func(dst io.Writer) error) error
	CRC32() uint32
}

// part writes one file. Only its name is missing then.
func (w *writer) part(s *part) (*atomicfile.File, error) {
	f, err := w.create(s.path)
	if err != nil {
		return nil, err
	}
	file, err := w.plan.target.writer(w.plan, f, s)
	if err != nil {
		return nil, about(s.path, err)
	}
	blocks, _ := file.(blocksWriter)
	for i := range s.tensors {
		if err := w.tensor(file, blocks, &s.tensors[i]); err != nil {
			return nil, err
		}
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	if s.size = file.Size(); blocks != nil {
		s.crc32 = blocks.CRC32()
	}
	if w.plan.opts.Signer != nil || w.plan.opts.Encrypter != nil {
		if s.head, err = headDigest(f, s.size); err != nil {
			return nil, err
		}
	}
	return f, f.Prepare()
}

// tensor writes t, compressed if that is asked for and pays. blocks is nil for a format without
// compression.
func (w *writer) tensor(file fileWriter, blocks blocksWriter, t *Tensor) error {
	begun, planned := w.progress.done, t.Bytes
	err := apr2.ErrRollback
	if blocks != nil && w.lz4 != nil {
		err = w.compressed(blocks, t)
	}
	if errors.Is(err, apr2.ErrRollback) {
		w.progress.done = begun
		t.Stored = t.Bytes
		write := t.writeTo
		if blocks != nil && w.plan.opts.Compress.keepsBlocks(t) {
			planned, t.Stored, write = t.content(), t.content(), t.copyBlocks
		}
		err = file.WriteTensorFunc(func(dst io.Writer) error {
			lost, err := write(w.monitor(dst), &w.buf)
			t.noteLoss(lost)
			return err
		})
	}
	w.progress.done = begun + planned
	return err
}

// progress counts and reports the bytes of elements.
type progress struct {
	ctx  context.Context
	done uint64
	told uint64 // the most that has been reported
	parallel.Progress
}

func (p *progress) add(n int) {
	p.done += uint64(n)
	if p.done > p.told { // not while a tensor is written a second time
		p.Add(p.done - p.told)
		p.told = p.done
	}
}

func (p *progress) end() { p.Add(p.Total - p.told) }

// monitor reports what passes through to dst.
func (w *writer) monitor(dst io.Writer) io.Writer {
	return &parallel.Writer{Ctx: w.progress.ctx, W: dst, Wrote: w.progress.add}
}
