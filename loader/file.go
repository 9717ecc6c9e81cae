package loader

import (
	"context"
	"errors"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/mmapio"
)

// decodeStored reads the index of s, whose data it closes if that fails.
func decodeStored(s *stored, lim *layout.Limits) (f file, err error) {
	defer func() {
		if f.index == nil { // for an error, or a panic of the caller's reader
			s.data.Close()
		}
	}()
	f = file{path: s.path, mapping: s.data, reader: s.reader, origin: s.origin, metadata: newParsed(), verification: s.verification, head: s.head}
	// Guard ends before the data is closed: afterwards no mapping claims the address of a fault.
	err = mmapio.Guard(func() error {
		f.layout, err = formats.Decode(s.index, lim)
		return err
	})
	if err != nil {
		return file{}, err
	}
	f.align = 8 // the most that a dtype needs, also of a mapping yet to be made
	for !f.mapping.Pending() && !mmapio.IsAligned(f.mapping.Bytes(), f.align) {
		f.align /= 2
	}
	f.index = f.layout.Index()
	if s.packed != nil {
		packed := f
		packed.mapping = s.packed
		packed.showContent()
		f.packed = &packed
	}
	if s.cipher != nil { // else it is not encrypted, or there is no key
		f.decrypted = decrypted.New(f.path, s.cipher, f.layout.(*apr2.File).Encryption.BlockSize, f.index)
	}
	f.showContent()
	return f, nil
}

// access is how the bytes of a file are reached.
type access uint8

const (
	inPlace  access = iota // they are in memory, mapped or the caller's
	bySystem               // system calls read them
	fromAfar               // a reader of the caller's reads them, perhaps over a network
)

// access returns how the file is read. Only the first touch of a shard may change it: from
// inPlace to bySystem, if the system refuses to map the file.
func (f *file) access() access {
	if f.content.Aliased() {
		return inPlace
	}
	if far(f.reader) {
		return fromAfar
	}
	return bySystem
}

// readFull fills dst with the file's bytes at off, as they are stored.
func (f *file) readFull(ctx context.Context, dst []byte, off uint64) error {
	return mmapio.ReadFull(ctx, f.mapping, dst, off)
}

// readContent fills dst with bytes of tensors at off, decrypted if they are encrypted.
func (f *file) readContent(ctx context.Context, dst []byte, off uint64) error {
	return mmapio.ReadFull(ctx, f.content, dst, off)
}

// view returns n bytes at off: those in place, or else a copy in the buffer that buf returns.
func (f *file) view(ctx context.Context, buf func() []byte, off, n uint64) ([]byte, error) {
	if f.mapping.Aliased() {
		return f.mapping.SliceContext(ctx, off, n)
	}
	b := buf()[:n]
	return b, f.readFull(ctx, b, off)
}

// of returns the file to read a tensor from.
func (f *file) of(desc *layout.Tensor) *file {
	if desc.Encoding == layout.Raw {
		return f
	}
	return f.afar()
}

// afar returns the file whose bytes go from the caller's reader to memory, past the file that it keeps.
func (f *file) afar() *file {
	if f.packed != nil && f.decrypted == nil {
		return f.packed
	}
	return f
}

// waits reports whether touching the file's bytes may wait for a network.
func (f *file) waits() bool { return f.access() == fromAfar || f.mapping.Fills() }

// input returns the file for a decoder, whose reads end with ctx.
func (f *file) input(ctx context.Context) layout.Input { return bound{f.mapping, ctx} }

// present checks that the file has not shrunk since it was opened.
func (f *file) present(ctx context.Context) error {
	size := f.mapping.Size()
	if size == 0 {
		return nil
	}
	_, err := f.mapping.Probe(ctx, size-1, 1)
	return err
}

// intact returns an error if the file has become shorter while it was mapped. The rest of the
// page that its new end lies in reads as zeros, and does not fault.
func (f *file) intact() error {
	if !f.mapping.Mapped() { // or else the read itself has told
		return nil
	}
	now, ok, _ := f.now()
	if ok && now.SameFile(f.opened) && now.Size() < f.opened.Size() {
		return f.opened.Check(now)
	}
	return nil
}

// Wrap adds the file's name to err, unless err is about a context.
func (f *file) Wrap(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &fileError{f.path, err}
}

// Mapping returns the file's content, for a plan.
func (f *file) Mapping() *mmapio.Mapping { return f.content }

// Align returns the alignment that the file promises its tensors, or a page if tags lie between them.
func (f *file) Align() uint64 {
	if f.decrypted != nil {
		return 4096
	}
	return f.index.Align
}

// Fill fills the buffers from off on, at once if the reader can.
func (f *file) Fill(ctx context.Context, buffers []plan.Padded, off uint64) error {
	if v, ok := f.reader.(VectorReaderAt); ok && f.verification == nil && f.decrypted == nil {
		var bufs [][]byte
		for _, p := range buffers {
			bufs = append(bufs, make([]byte, p.Gap), p.B)
		}
		return v.ReadVector(ctx, bufs, int64(off))
	}
	if f.decrypted != nil {
		return f.fillEncrypted(ctx, buffers, off)
	}
	for _, p := range buffers {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		off += p.Gap
		if err := f.readFull(ctx, p.B, off); err != nil {
			return err
		}
		off += uint64(len(p.B))
	}
	return nil
}
