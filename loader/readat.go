package loader

import (
	"context"
	"fmt"
	"io"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
)

// ReadAt fills p with the bytes of the elements from byte off on, decompressed, as Bytes has
// them. It is io.ReaderAt: fewer bytes than asked for come with an error, at the tensor's end
// io.EOF. A compressed tensor costs the blocks of 64 KiB that hold the range. Nothing is cached but
// a tensor that can only be unpacked as a whole (layout.Encoding.Packed).
func (t Tensor) ReadAt(p []byte, off int64) (n int, err error) {
	var end error
	err = t.call(context.Background(), uint64(len(p)), func(ctx context.Context, env content.Env, s *state) error {
		if off < 0 {
			return fmt.Errorf("%w: byte %d", ErrRange, off)
		}
		if err := t.checkBytes(); err != nil {
			return err
		}
		if size := s.elements.Size(); !layout.Within(uint64(off), uint64(len(p)), size) {
			p, end = p[:size-min(uint64(off), size)], io.EOF // p ends with the tensor
		}
		if len(p) == 0 {
			return nil
		}
		return content.Read(ctx, env, s.elements, p, uint64(off))
	})
	if err != nil {
		return 0, err
	}
	return len(p), end
}

// ReadFileAt fills p with the bytes of a file as they are stored, from byte off on; file is a
// position in Files. It copies, whether or not the file is mapped. Reading a remote file ends with
// ctx. A range that leaves the file is ErrRange.
func (m *Model) ReadFileAt(ctx context.Context, file int, p []byte, off uint64) error {
	return m.whileOpen(ctx, nil, func(ctx context.Context) error {
		f, err := m.fileWithRange(file, off, uint64(len(p)))
		if err != nil {
			return err
		}
		return f.Wrap(f.data.ReadAt(ctx, p, off))
	})
}

// fileWithRange returns the i-th file of the model. It fails with ErrRange if there is no such file, or if it does not
// have n bytes at off.
func (m *Model) fileWithRange(i int, off, n uint64) (*file, error) {
	if i < 0 || i >= len(m.files) {
		return nil, fmt.Errorf("%s: %w: file %d of %d", m.path, ErrRange, i, len(m.files))
	}
	f := m.files[i]
	if size := f.data.Size(); !layout.Within(off, n, size) {
		return nil, fmt.Errorf("%s: %w: %d bytes at %d of %d", f.path, ErrRange, n, off, size)
	}
	return f, nil
}
