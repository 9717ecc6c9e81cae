package loader

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// OpenFS opens the model called name in fsys, such as an [embed.FS], and its other files beside it.
// Files are read as [OpenReaderAt] reads them, and closed by the model. They must be io.ReaderAt;
// others, such as those of a zip archive, are ErrUnsupported. For a directory of this system Open
// is better: it maps.
func OpenFS(fsys fs.FS, name string, opts *Options) (*Model, error) {
	r, size, err := openIn(fsys, name)
	if err != nil {
		return nil, err
	}
	own := opts.withDefaults()
	own.OwnReader = true
	return OpenReaderAt(context.Background(), r, size, &own)
}

// fsFile is a file of an fs.FS as a reader.
type fsFile struct {
	fs.File
	io.ReaderAt
	fsys fs.FS
	name string
}

var _ SiblingOpener = fsFile{}

func openIn(fsys fs.FS, name string) (r io.ReaderAt, size int64, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if r == nil { // Stat may have panicked
			f.Close()
		}
	}()
	info, err := f.Stat()
	at, ok := f.(io.ReaderAt)
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("not a regular file, but %v", info.Mode())}
	case !ok:
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: a %T reads no ranges (io.ReaderAt)", ErrUnsupported, f)}
	default:
		return fsFile{f, at, fsys, name}, info.Size(), nil
	}
	return nil, 0, err
}

// Name returns the path in the file system.
func (f fsFile) Name() string { return f.name }

// OpenSibling opens the file called name in the same directory.
func (f fsFile) OpenSibling(_ context.Context, name string) (io.ReaderAt, int64, error) {
	return openIn(f.fsys, path.Join(path.Dir(f.name), name))
}
