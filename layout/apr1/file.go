package apr1

import (
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/atomicfile"
)

// FileWriter writes a file that appears under its name when it is complete, and not
// before; see [atomicfile.File].
type FileWriter struct {
	*Writer
	file *atomicfile.File
}

// Create starts to write the file called path as NewWriter does. Either Close or Abort must
// be called:
//
//	w, err := apr1.Create(path, tensors, nil)
//	if err != nil {
//		return err
//	}
//	defer w.Abort() // does nothing after Close
//	…
//	return w.Close()
func Create(path string, tensors []layout.Tensor, opts *Options) (*FileWriter, error) {
	f, err := atomicfile.Create(path)
	if err != nil {
		return nil, err
	}
	w, err := NewWriter(f, tensors, opts)
	if err != nil {
		f.Abort()
		return nil, err
	}
	return &FileWriter{w, f}, nil
}

// Close writes vocabulary, filterbank and checksum, makes sure that everything is on disk,
// and gives the file its name. Where it fails, what the name stood for before is still there.
func (w *FileWriter) Close() error {
	if err := w.Writer.Close(); err != nil {
		w.file.Abort()
		return err
	}
	return w.file.Commit()
}

// Abort gives up what has been written. After Close it does nothing.
func (w *FileWriter) Abort() error {
	w.fail(layout.ErrClosed)
	return w.file.Abort()
}
