package loader

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
)

// Trust says which bytes the files of a model must have. Package trust makes one of a signature.
type Trust interface {
	// Digests returns the digests of a file of the model. name is its plain name, without a
	// directory. in reads bytes that nobody has verified yet: what Digests makes of them it must
	// verify itself. An error refuses the file.
	Digests(name string, in layout.Input) (*layout.Digests, error)
}

// A Lister is a Trust that knows which files there are. A listed file that is missing is an error, also if
// models may do without it, as without a configuration.
type Lister interface {
	Trust
	// Lists reports whether the file of a plain name must be there.
	Lists(name string) bool
}

// Secret opens what was encrypted with it: an [encrypted.Key], or a passphrase of package trust.
type Secret = encrypted.Secret

// IntegrityError means that a chunk of a file is not the trusted one. It wraps
// layout.ErrChecksum, and stays the answer for that chunk. Other chunks go on working.
type IntegrityError = layout.IntegrityError

// plainName returns the plain name that a Trust knows a file by: the last element of its path, or of its URL without the query.
func plainName(address string) string {
	if strings.Contains(address, "://") {
		address, _, _ = strings.Cut(address, "?")
	}
	return path.Base(filepath.ToSlash(address))
}
