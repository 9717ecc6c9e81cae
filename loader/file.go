package loader

import (
	"context"
	"errors"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	datafile "github.com/tensormap/tensormap/loader/internal/file"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/mmapio"
)

// file is one file of a model.
type file struct {
	model *Model
	path  string
	data  *datafile.File
	origin
	decrypted *decrypted.File // nil unless the file is encrypted, and there is a key
	layout    layout.File
	index     *layout.Index
	metadata  *parsed // what this file says
	head      []byte  // see stored
	// align is the alignment of the file's first byte in memory, as far as any dtype
	// cares: less than 8 only if OpenBytes was given odd memory.
	align int
}

// decodeStored returns the file whose bytes and index s has. The error is that of reading or decoding the index.
func decodeStored(s *stored, lim *layout.Limits) (f file, err error) {
	f = file{path: s.data.Name(), data: s.data, origin: s.origin, metadata: newParsed(), head: s.head}
	if f.layout, err = formats.Decode(s.index, lim); err != nil {
		return f, err
	}
	f.align = 8 // the most that a dtype needs, also of a mapping yet to be made
	for m := f.data.Mapping(); m != nil && !m.Pending() && !mmapio.IsAligned(m.Bytes(), f.align); {
		f.align /= 2
	}
	f.index = f.layout.Index()
	if s.cipher != nil { // else it is not encrypted, or there is no key
		f.decrypted = decrypted.New(f.path, s.cipher, f.layout.(*apr2.File).Encryption.BlockSize, f.index)
	}
	return f, nil
}

// InPlace reports whether the bytes of the file's tensors are in memory, mapped or the caller's. Only the first touch of a
// shard may end that, if the system refuses to map the file.
func (f *file) InPlace() bool { return f.decrypted == nil && f.data.InPlace() }

// stored returns the bytes of a tensor as the file has them, decrypted. Compressed bytes that are fetched are Large:
// one request brings many blocks, and these are not viewed.
func (f *file) stored(desc *layout.Tensor) content.Content {
	if f.decrypted != nil {
		return &decrypted.Content{Reader: f.decryption(), Off: desc.Offset, N: desc.Stored}
	}
	return &content.Stored{File: f.data, Off: desc.Offset, N: desc.Stored, Large: desc.Encoding != layout.Raw && f.data.Fetches()}
}

// view returns n bytes at off: those in place, or else a copy in the buffer that buf returns.
func (f *file) view(ctx context.Context, buf func() []byte, off, n uint64) ([]byte, error) {
	if b, err := f.data.View(ctx, off, n); b != nil || err != nil {
		return b, err
	}
	b := buf()[:n]
	return b, f.data.ReadAt(ctx, b, off)
}

// checkLast returns an error if the last byte of the file cannot be read: it has shrunk since it was opened.
func (f *file) checkLast(ctx context.Context) error {
	size := f.data.Size()
	if size == 0 {
		return nil
	}
	_, err := f.data.Probe(ctx, size-1, 1)
	return err
}

// intact returns an error if the file has become shorter while it was mapped. The rest of the
// page that its new end lies in reads as zeros, and does not fault.
func (f *file) intact() error {
	if !f.data.Mapped() { // or else the read itself has told
		return nil
	}
	now, ok, _ := f.now() // an error of asking says nothing of the file
	if ok && now.SameFile(f.opened) && now.Size() < f.opened.Size() {
		return f.opened.Check(now)
	}
	return nil
}

// Wrap adds the file's name to err, unless err is nil or about a context.
func (f *file) Wrap(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return inFile(f.path, err)
}

// Align returns the alignment that the file promises its tensors, or a page if tags lie between them.
func (f *file) Align() uint64 {
	if f.decrypted != nil {
		return 4096
	}
	return f.index.Align
}

// Resident returns how many bytes of a file in place are in memory.
func (f *file) Resident(off, n uint64) (uint64, error) { return f.data.Resident(off, n) }

// Warm brings bytes of a file in place into memory.
func (f *file) Warm(ctx context.Context, off, n uint64, cold bool) error {
	return f.data.Warm(ctx, off, n, cold)
}

// Fill fills the buffers from off on. Small ones of a remote file are filled by one request.
func (f *file) Fill(ctx context.Context, buffers []plan.Padded, off uint64) error {
	if f.decrypted != nil {
		return f.fillEncrypted(ctx, buffers, off)
	}
	if len(buffers) == 1 || !f.data.Remote() {
		return plan.FillEach(ctx, buffers, off, f.data.ReadAt)
	}
	return plan.FillAtOnce(ctx, buffers, off, f.data.ReadAt)
}
