package loader

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// OpenFS opens the model called name in fsys, such as an [embed.FS], and its other files beside it. It maps files of this system, such as
// the files of [os.DirFS] and [os.Root.FS]. It reads others as [OpenReaderAt] does. It fails with ErrUnsupported for a file that is no
// io.ReaderAt, as in a zip archive. The model closes the files.
func OpenFS(fsys fs.FS, name string, opts *Options) (*Model, error) {
	return OpenFolder(context.Background(), fsFolder{fsys, path.Dir(name)}, path.Base(name), opts)
}

// fsFolder is a directory of an fs.FS.
type fsFolder struct {
	fsys fs.FS
	dir  string
}

// Open opens the file called name in the directory. It returns a file of this system as Local, and any other as Source. It fails if
// the file system does, or if the file is not a regular one. It fails with ErrUnsupported if the file is no io.ReaderAt.
func (d fsFolder) Open(_ context.Context, name string) (FolderFile, error) {
	name = path.Join(d.dir, name)
	f, err := d.fsys.Open(name)
	if err != nil {
		return FolderFile{}, err
	}
	taken := false // true once the result has f, so that f stays open
	defer func() {
		if !taken { // for an error, or a panic of Stat
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return FolderFile{}, err
	}
	if !info.Mode().IsRegular() {
		return FolderFile{}, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("not a regular file, but %v", info.Mode())}
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		return FolderFile{}, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: a %T reads no ranges (io.ReaderAt)", ErrUnsupported, f)}
	}
	taken = true
	if local, ok := f.(*os.File); ok {
		return FolderFile{Name: name, Local: local}, nil
	}
	return FolderFile{Name: name, Source: fsFile{readerAt{name, at, info.Size()}, f}}, nil
}

// fsFile is a file of an fs.FS as a Source.
type fsFile struct {
	readerAt
	file fs.File
}

// Close closes the file.
func (f fsFile) Close() error { return f.file.Close() }
