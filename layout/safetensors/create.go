package safetensors

import (
	"github.com/tensormap/tensormap/internal/atomicfile"
	"github.com/tensormap/tensormap/layout"
)

// FileWriter writes a file that appears under its name when it is complete, and not
// before; see [atomicfile.File].
type FileWriter struct {
	*Writer
	file *atomicfile.File
}

// Create starts to write the file called path as NewWriter does. Either Close or Abort
// must be called:
//
//	w, err := safetensors.Create(path, tensors, nil)
//	if err != nil {
//		return err
//	}
//	defer w.Abort() // does nothing after Close
//	…
//	return w.Close()
func Create(path string, tensors []layout.Tensor, metadata layout.Metadata) (*FileWriter, error) {
	return atomicfile.Begin(path, func(f *atomicfile.File) (*FileWriter, error) {
		w, err := NewWriter(f, tensors, metadata)
		return &FileWriter{w, f}, err
	})
}

// Close makes sure that everything is on disk, and gives the file its name. Where it fails,
// what the name stood for before is still there.
func (w *FileWriter) Close() error {
	return w.file.CommitIf(w.Writer.Close())
}

// Abort gives up what has been written. After Close it does nothing.
func (w *FileWriter) Abort() error {
	w.fail(layout.ErrClosed)
	return w.file.Abort()
}
