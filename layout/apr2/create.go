package apr2

import (
	"errors"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/tensormap/tensormap/internal/atomicfile"
	"github.com/tensormap/tensormap/internal/crcmath"
	"github.com/tensormap/tensormap/layout"
)

// FileWriter writes a file that appears under its name when it is complete, and not
// before; see [atomicfile.File].
type FileWriter struct {
	*Writer
	file *atomicfile.File
	// late is set where the head is written last, because it has sizes that only then
	// are known; the checksum is then that of what follows the head.
	late bool

	handedOver bool // to the caller of Prepare
}

// Create starts to write the file called path as NewWriter does. Either Close or Abort
// must be called:
//
//	w, err := apr2.Create(path, tensors, nil)
//	if err != nil {
//		return err
//	}
//	defer w.Abort() // does nothing after Close
//	…
//	return w.Close()
//
// A tensor whose Encoding is LZ4 and whose Stored is 0 is one of which it is not known how
// many bytes it will take, or whether it will be compressed at all: WriteBlocksFunc writes
// it compressed, the other methods write it raw. With such a tensor the head of the file is
// written last, so path must not be a pipe or a device.
func Create(path string, tensors []layout.Tensor, opts *Options) (*FileWriter, error) {
	return atomicfile.Begin(path, func(f *atomicfile.File) (*FileWriter, error) {
		return newFileWriter(f, tensors, opts)
	})
}

func newFileWriter(f *atomicfile.File, tensors []layout.Tensor, opts *Options) (*FileWriter, error) {
	tensors, late := provisional(tensors)
	w, head, err := newWriter(f, tensors, opts)
	if err != nil {
		return nil, err
	}
	if err := w.write(head); err != nil {
		return nil, err
	}
	if late {
		// To find out now whether that is possible.
		if _, err := f.WriteAt(head[:1], 0); err != nil {
			return nil, err
		}
		w.sum.CRC32 = 0
	}
	return &FileWriter{Writer: w, file: f, late: late}, nil
}

// provisional counts tensors of unknown size as raw.
func provisional(tensors []layout.Tensor) (list []layout.Tensor, late bool) {
	for i, t := range tensors {
		if t.Encoding == layout.LZ4 && t.Stored == 0 {
			if !late {
				list, late = slices.Clone(tensors), true
			}
			list[i].Encoding = layout.Raw
		}
	}
	if !late {
		return tensors, false
	}
	return list, true
}

// ErrTakeBack is what the function given to WriteBlocksFunc answers to undo all it has
// written: compressing did not pay, say.
var ErrTakeBack = errors.New("taken back")

// WriteBlocksFunc writes the next tensor compressed: what write hands to dst are its blocks,
// as the package's documentation has them, which nobody checks here. It is for files with a
// tensor of unknown size; see Create.
//
// If write answers ErrTakeBack, so does WriteBlocksFunc, the file is as it was, and the next
// call writes the same tensor.
func (w *FileWriter) WriteBlocksFunc(write func(dst io.Writer) error) error {
	if !w.late {
		return w.fail(errorf(w.sum.Size, "size", layout.ErrInvalid, "the file was begun with all sizes known"))
	}
	before := w.state
	t, err := w.begin()
	if err != nil {
		return err
	}
	dst := tensorWriter{w: w.Writer, tensor: t, most: math.MaxInt64 - footerSize - t.Offset}
	if err := write(&dst); errors.Is(err, ErrTakeBack) && w.err == nil {
		return w.takeBack(before)
	} else if err != nil {
		return w.fail(err)
	}
	if w.err != nil {
		return w.err // which write has dropped
	}
	return w.settle(t, dst.n)
}

// takeBack makes the file what it was before.
func (w *FileWriter) takeBack(before state) error {
	if err := w.file.Truncate(int64(before.sum.Size)); err != nil {
		return w.fail(err)
	}
	w.state = before
	return ErrTakeBack
}

// settle enters the size of a tensor just written. One without elements has no blocks, and
// counts as raw.
func (w *FileWriter) settle(t *layout.Tensor, stored uint64) error {
	if (t.Raw+maxExpansion-1)/maxExpansion > stored || t.Raw == 0 && stored > 0 {
		return w.fail(errorf(t.Offset, "size", layout.ErrInvalid, "tensor %s: %d bytes of LZ4 blocks do not yield %d",
			layout.Quote(t.Name), stored, t.Raw))
	}
	t.Stored = stored
	if stored > 0 {
		t.Encoding = layout.LZ4
	}
	return nil
}

// Close writes the footer, makes sure that everything is on disk, and gives the file its
// name. Where it fails, what the name stood for before is still there.
func (w *FileWriter) Close() error {
	f, err := w.Prepare()
	if err != nil {
		return err
	}
	return f.Commit()
}

// Prepare is Close without giving the file its name: Commit of what it returns does that, or
// [atomicfile.CommitAll] together with other files, and Abort gives the file up.
func (w *FileWriter) Prepare() (*atomicfile.File, error) {
	if w.handedOver {
		return nil, layout.ErrClosed
	}
	if err := w.close(); err != nil {
		w.file.Abort()
		return nil, err
	}
	if err := w.file.Prepare(); err != nil {
		return nil, err
	}
	w.handedOver = true
	return w.file, nil
}

func (w *FileWriter) close() error {
	if err := w.complete(); err != nil {
		return err
	}
	if w.late {
		if err := w.writeHead(); err != nil {
			return w.fail(err)
		}
	}
	return w.finish()
}

// writeHead replaces the provisional head. The checksum of the whole follows from those of
// the head and of what comes behind it.
func (w *FileWriter) writeHead() error {
	head, err := w.plan.encode(w.index.Tensors)
	if err != nil {
		return err
	}
	if w.index, err = w.plan.readBack(head); err != nil {
		return err
	}
	if _, err := w.file.WriteAt(head, 0); err != nil {
		return err
	}
	w.sum.CRC32 = crcmath.Combine(crc32.ChecksumIEEE(head), w.sum.CRC32, crcmath.XPow8(w.sum.Size-uint64(len(head))))
	return nil
}

// Abort gives up what has been written. After Close or Prepare it does nothing.
func (w *FileWriter) Abort() error {
	if w.handedOver {
		return nil
	}
	w.fail(layout.ErrClosed)
	return w.file.Abort()
}
