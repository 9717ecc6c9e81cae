package loader

import (
	"context"
	"fmt"
	"io"

	"github.com/tensormap/tensormap/layout"
)

// ReadAt fills p with the bytes of the elements from byte off on, decompressed, as Bytes has
// them. It is io.ReaderAt: fewer bytes than asked for come with an error, at the tensor's end
// io.EOF. A compressed tensor costs the blocks of 64 KiB that hold the range. Nothing is cached but
// a tensor that can only be unpacked as a whole (layout.Encoding.Packed).
func (t Tensor) ReadAt(p []byte, off int64) (n int, err error) {
	raw := t.desc.Raw
	if off < 0 {
		return 0, t.wrap(fmt.Errorf("%w: byte %d", ErrRange, off))
	}
	if err := t.enterStored(); err != nil {
		return 0, err
	}
	defer t.leave()
	var end error
	if !layout.Within(uint64(off), uint64(len(p)), raw) {
		p, end = p[:raw-min(uint64(off), raw)], io.EOF
	}
	if len(p) == 0 {
		return 0, end
	}
	if err := t.readAt(p, uint64(off)); err != nil {
		return 0, t.wrap(err)
	}
	if err := t.confirm(uint64(len(p))); err != nil {
		return 0, err
	}
	return len(p), end
}

// ReadFileAt fills p with the bytes of a file as they are stored, from byte off on; file is a
// position in Files. It copies, whether or not the file is mapped. Reading from afar ends with
// ctx. A range that leaves the file is ErrRange.
func (m *Model) ReadFileAt(ctx context.Context, file int, p []byte, off uint64) error {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.leave()
	f, err := m.fileAt(file, off, uint64(len(p)))
	if err != nil {
		return err
	}
	ctx, stop := m.from.until(ctx)
	defer stop()
	return f.Wrap(f.readFull(ctx, p, off))
}

// fileAt returns the i-th of Files, which has n bytes at off. The error is ErrRange.
func (m *Model) fileAt(i int, off, n uint64) (*file, error) {
	if i < 0 || i >= len(m.files) {
		return nil, fmt.Errorf("%s: %w: file %d of %d", m.path, ErrRange, i, len(m.files))
	}
	f := &m.files[i]
	if size := f.mapping.Size(); !layout.Within(off, n, size) {
		return nil, fmt.Errorf("%s: %w: %d bytes at %d of %d", f.path, ErrRange, n, off, size)
	}
	return f, nil
}
