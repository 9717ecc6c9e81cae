package loader

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// OpenFS opens the model called name in fsys, such as an [embed.FS], and its other files beside it. Files of this system, as
// those of [os.DirFS] and [os.Root.FS], are mapped. Others are read as by [OpenReaderAt]. Those that are no io.ReaderAt, as in
// a zip archive, are ErrUnsupported. The model closes all.
func OpenFS(fsys fs.FS, name string, opts *Options) (*Model, error) {
	return OpenFolder(context.Background(), fsFolder{fsys, path.Dir(name)}, path.Base(name), opts)
}

// fsFolder is a directory of an fs.FS.
type fsFolder struct {
	fsys fs.FS
	dir  string
}

// Open opens the file called name in the directory. It is ErrUnsupported if it is no io.ReaderAt. On an error the file
// is closed again.
func (d fsFolder) Open(_ context.Context, name string) (s Stored, err error) {
	name = path.Join(d.dir, name)
	f, err := d.fsys.Open(name)
	if err != nil {
		return s, err
	}
	defer func() {
		if s.Name == "" { // Stat may have panicked
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	at, ok := f.(io.ReaderAt)
	switch local, isLocal := f.(*os.File); {
	case !info.Mode().IsRegular():
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("not a regular file, but %v", info.Mode())}
	case !ok:
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: a %T reads no ranges (io.ReaderAt)", ErrUnsupported, f)}
	case isLocal:
		return Stored{Name: name, Local: local}, nil
	default:
		return Stored{Name: name, Source: fsFile{readerAt{name, at, info.Size()}, f}}, nil
	}
	return s, err
}

// fsFile is a file of an fs.FS as a Source.
type fsFile struct {
	readerAt
	file fs.File
}

func (f fsFile) Close() error { return f.file.Close() }
