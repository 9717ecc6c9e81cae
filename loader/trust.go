package loader

import (
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader/internal/verified"
	"github.com/tensormap/tensormap/mmapio"
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

// Secret opens what was encrypted with it: a [encrypted.Key], or a passphrase of package trust.
type Secret = encrypted.Secret

// IntegrityError means that a chunk of a file is not the trusted one. It wraps
// layout.ErrChecksum, and stays the answer for that chunk. Other chunks go on working.
type IntegrityError = layout.IntegrityError

// verification is what a file has if the model has a Trust.
type verification struct {
	*verified.File
	chunks *verified.Chunks // of a file that is read from afar, or copied; else nil
}

// trustedName returns the plain name of a file, also of an address.
func trustedName(name string) string {
	if strings.Contains(name, "://") {
		name, _, _ = strings.Cut(name, "?")
	}
	return path.Base(filepath.ToSlash(name))
}

// reading returns a mapping of the verified bytes that in reads.
func (v *verification) reading(in *mmapio.Mapping) *mmapio.Mapping {
	return mmapio.FromReaderAt(v.reader(in), int64(in.Size()))
}

func (v *verification) reader(r io.ReaderAt) io.ReaderAt {
	return verified.Reader{Chunks: v.chunks, R: r}
}

// hashed returns how many bytes were hashed.
func (v *verification) hashed() uint64 {
	if v == nil {
		return 0
	}
	return v.Bytes()
}

// held returns how many bytes of the file are in memory of this process.
func (v *verification) held(private bool) uint64 {
	switch {
	case v == nil:
		return 0
	case v.chunks != nil:
		return v.chunks.Held()
	case private:
		return v.Bytes()
	}
	return 0
}
