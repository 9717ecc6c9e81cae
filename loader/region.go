package loader

import (
	"context"
	"fmt"
)

// Region is the mapped memory of a file's tensors, to be registered with a device: by cudaHostRegister, or as a buffer of Metal
// without a copy. It holds a lease until Release.
type Region struct {
	// Bytes are whole pages, read-only. Bytes behind the end of the file are zeros. Touching Bytes may fault: see
	// [mmapio.Guard].
	Bytes []byte
	// Offset is where Bytes begin in the file. The stored bytes of a tensor begin at
	// Bytes[Tensor.Offset()-Offset].
	Offset uint64

	lease *Lease
}

// Release ends the region: neither the program nor a device may touch Bytes any more. A second Release does
// nothing, nor does Release of a zero Region.
func (r *Region) Release() {
	if r.lease != nil {
		r.lease.Release()
	}
}

// Region returns the pages that hold all tensors of a file; file is a position in Files. They stay where they are until the
// region is released, even if the model is closed before. Region first fetches and verifies their bytes, where needed. A file
// that is not mapped is ErrUnsupported (see [Options].NoMap, Private and [OpenBytes]), as is an encrypted one, or one without
// tensors. ErrRange means that Files has no such position, ErrClosed that the model is closed. Other errors are errors of reading
// and verifying, or the cause of ctx.
func (m *Model) Region(ctx context.Context, file int) (*Region, error) {
	l, err := m.Acquire()
	if err != nil {
		return nil, err
	}
	r, err := readWhileOpen(ctx, m, l, func(ctx context.Context) (*Region, error) {
		f, err := m.fileWithRange(file, 0, 0)
		if err != nil {
			return nil, err
		}
		r, err := f.region(ctx)
		return r, f.Wrap(err)
	})
	if err != nil {
		l.Release()
		return nil, err
	}
	r.lease = l
	return r, nil
}

// region returns the pages that hold the file's tensors, after it has fetched and verified them. The caller sets the lease of the
// result. region fails with ErrUnsupported if the file is encrypted, is not mapped, or has no bytes of tensors. It does so too if its
// cache takes no more. It also fails if fetching or verifying does.
func (f *file) region(ctx context.Context) (*Region, error) {
	begin, end := f.data.Size(), uint64(0) // of all tensors, as bytes of the file
	encrypted := false
	for i := range f.index.Tensors {
		t := &f.index.Tensors[i]
		begin, end = min(begin, t.Offset), max(end, t.Offset+t.Stored)
		encrypted = encrypted || t.Encoding.Encrypted()
	}
	switch {
	case begin >= end:
		return nil, fmt.Errorf("%w: no tensor of it has bytes that could be registered", ErrUnsupported)
	case encrypted:
		return nil, fmt.Errorf("%w: its tensors are encrypted, so its pages are of no use to a device", ErrUnsupported)
	case !f.data.InPlace(), !f.data.Mapping().Mapped():
		return nil, fmt.Errorf("%w: the file is not mapped, so it has no pages to register", ErrUnsupported)
	}
	b, at, err := f.data.Mapping().Pages(begin, end-begin)
	if err != nil {
		return nil, err
	}
	switch view, err := f.data.View(ctx, at, min(uint64(len(b)), f.data.Size()-at)); {
	case err != nil:
		return nil, err
	case view == nil:
		return nil, fmt.Errorf("%w: its cache takes no more, so it has no pages to register", ErrUnsupported)
	}
	return &Region{Bytes: b, Offset: at}, nil
}
