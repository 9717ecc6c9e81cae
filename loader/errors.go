package loader

import (
	"fmt"

	"github.com/tensormap/tensormap/layout"
)

// Errors that callers test for with errors.Is; package layout has the others.
var (
	// ErrClosed is the answer of everything once the model, or the lease it came
	// through, is closed.
	ErrClosed = layout.ErrClosed
	// ErrNotFound means that the model has no tensor of that name.
	ErrNotFound = layout.ErrNotFound
	// ErrUnsupported means that the file is valid and the work cannot be done: a dtype
	// without a value in float32, say.
	ErrUnsupported = layout.ErrUnsupported
)

// wrap adds to err which tensor of which file it is about.
func (t Tensor) wrap(err error) error {
	return fmt.Errorf("%s: tensor %q: %w", t.file.path, t.Name(), err)
}
