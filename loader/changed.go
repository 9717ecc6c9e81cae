package loader

import "context"

// Changed returns nil if all files of the model are, as far as can be told, what they were when
// they were opened. If one has been written since, or another one has its name, the error wraps
// [mmapio.ErrChanged] and says which. It asks the system about every file's name, and reads
// nothing. A file whose name is gone, or may not be looked up any more, counts as unchanged, as do
// memory and readers.
//
// Verify, Warm, and the functions of packages survey and convert ask before they begin and when
// they are done: they fail if a file has changed under them.
func (m *Model) Changed() error {
	return m.whileOpen(context.Background(), nil, func(context.Context) error { return m.checkUnchanged() })
}

// Changed does what Model.Changed does, also after Close.
func (l *Lease) Changed() error {
	return l.model.whileOpen(context.Background(), l, func(context.Context) error { return l.model.checkUnchanged() })
}

// checkUnchanged returns an error with the file's name if a file of the model has been replaced or written since it was opened. The
// caller holds the model open.
func (m *Model) checkUnchanged() error {
	for i := range m.files {
		f := m.files[i]
		if err := f.changed(); err != nil {
			return f.Wrap(err)
		}
	}
	return nil
}

// checkFilesUnchanged returns an error, with the file's name, if a file of the tensors is no longer the one that was opened. It asks the
// system once for each file.
func checkFilesUnchanged(tensors []Tensor) error {
	asked := make(map[*file]bool)
	for _, t := range tensors {
		if f := t.file(); !asked[f] {
			asked[f] = true
			if err := f.changed(); err != nil {
				return f.Wrap(err)
			}
		}
	}
	return nil
}
