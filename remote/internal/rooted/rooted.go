// Package rooted writes below a folder that others may write to as well. It follows no link out of the folder, and
// none from one of its files to another.
package rooted

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// ErrLink says that a file to write is a link or has a second name. It also says that a link on the way to it leads
// out of the folder.
var ErrLink = errors.New("nothing is written through a link in a cache: remove the link")

// Path is a file below a folder.
type Path struct {
	Dir  string // the folder, which links may lead to
	Name string // of the file from there, or "" for the folder
}

// String returns the path as the system takes it.
func (p Path) String() string { return filepath.Join(p.Dir, p.Name) }

// Join returns what is called name in the folder p. The name has the system's separators.
func (p Path) Join(name ...string) Path {
	return Path{p.Dir, filepath.Join(append([]string{p.Name}, name...)...)}
}

// Parent returns the folder that the file is in.
func (p Path) Parent() Path { return Path{p.Dir, filepath.Dir(p.Name)} }

// Do calls use with the folder p.Dir. Errors name the path p.
func (p Path) Do(use func(root *os.Root) error) error {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return p.about(use(root))
}

// about returns err, an error of package os, as a *fs.PathError that names p, or nil for nil. If err says that a link
// leads out of the folder, the result wraps ErrLink.
func (p Path) about(err error) error {
	op := "write"
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		op, err = strings.TrimSuffix(e.Op, "at"), e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		op, err = strings.TrimSuffix(e.Op, "at"), e.Err
	}
	if err == nil {
		return nil
	}
	if err.Error() == "path escapes from parent" { // of os.Root, which exports no such error
		err = ErrLink
	}
	return &fs.PathError{Op: op, Path: p.String(), Err: err}
}

// MkdirAll makes the folder p, and its parents.
func (p Path) MkdirAll() error {
	if err := os.MkdirAll(p.Dir, 0o777); err != nil {
		return err
	}
	return p.Do(func(root *os.Root) error { return root.MkdirAll(filepath.Clean(p.Name), 0o777) })
}

// Open opens the file, or makes it if flag says so. It fails with ErrLink if p is a link, or if flag allows to make
// it and the file has a second name.
func (p Path) Open(flag int) (f *os.File, err error) {
	err = p.Do(func(root *os.Root) error {
		before, err := root.Lstat(p.Name)
		if err == nil && !before.Mode().IsRegular() {
			return fmt.Errorf("%w", ErrLink)
		}
		if f, err = root.OpenFile(p.Name, flag|nonblock, 0o666); err != nil {
			return err
		}
		open, err := f.Stat()
		if err == nil && flag&os.O_CREATE != 0 && names(open) > 1 {
			err = ErrLink
		}
		if now, gone := root.Lstat(p.Name); err == nil && gone == nil && !os.SameFile(open, now) && !now.Mode().IsRegular() {
			err = ErrLink // the file was replaced meanwhile
		}
		if err != nil {
			f.Close()
		}
		return err
	})
	return f, err
}

// Regular opens the file at path for reading, and follows links. It fails for a folder, a pipe or a device: to read a
// pipe might wait forever.
func Regular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("no regular file: remove it")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Read returns the content of the regular file p: see Regular.
func (p Path) Read() ([]byte, error) { return Read(p.String()) }

// Read returns the content of the regular file at path: see Regular.
func Read(path string) ([]byte, error) {
	f, err := Regular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Write replaces the file p, or makes it, at once and synced to disk. It makes the folder.
func (p Path) Write(text []byte) error {
	return p.fresh(func(root *os.Root, name string) error {
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Sync(), f.Close())
	})
}

// Symlink replaces p by a link to target, or makes it, at once. It makes the folder.
func (p Path) Symlink(target string) error {
	return p.fresh(func(root *os.Root, name string) error { return root.Symlink(target, name) })
}

// newName matches the end of a temporary name of Write and Symlink.
var newName = regexp.MustCompile(`\.[0-9a-f]{8}\.new$`)

// IsNew reports whether name is a temporary name of Write or Symlink.
func IsNew(name string) bool { return newName.MatchString(name) }

// fresh makes p, or replaces it at once: it calls begin to make a file or link with a temporary name, and renames that
// to p. It makes the folder. After an error it removes the temporary file.
func (p Path) fresh(begin func(root *os.Root, name string) error) error {
	if err := p.Parent().MkdirAll(); err != nil {
		return err
	}
	return p.Do(func(root *os.Root) error {
		name := fmt.Sprintf("%s.%08x.new", p.Name, rand.Uint32()) // another process may be here too
		err := begin(root, name)
		if err == nil {
			err = root.Rename(name, p.Name)
		}
		if err != nil {
			root.Remove(name)
		}
		return err
	})
}

// Remove removes the file or link p. It does nothing if p does not exist.
func (p Path) Remove() error {
	err := p.Do(func(root *os.Root) error { return root.Remove(p.Name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Touch sets the file's times to now.
func (p Path) Touch() error {
	now := time.Now()
	return p.Do(func(root *os.Root) error { return root.Chtimes(p.Name, now, now) })
}

// Is reports whether p is the file f, and not a link to it.
func (p Path) Is(f *os.File) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	same := false
	p.Do(func(root *os.Root) error {
		now, err := root.Lstat(p.Name)
		same = err == nil && os.SameFile(open, now)
		return nil
	})
	return same
}

// Rename renames the file p to a path that may be below another folder.
func (p Path) Rename(to Path) error {
	return p.both(to, renameAt)
}

// Link makes p a hard link to the open file f, which has the path from. It fails if another file has that path by now.
func (p Path) Link(from string, f *os.File) error {
	err := Path{filepath.Dir(from), filepath.Base(from)}.both(p, linkAt)
	if err == nil && !p.Is(f) { // from was another file
		err = errors.Join(p.about(fs.ErrNotExist), p.Remove())
	}
	return err
}

// both calls move with the open folder of p, its name there, the open folder of to, and its name there. Links cannot
// lead out of the two folders. Errors name to.
func (p Path) both(to Path, move func(a *os.File, from string, b *os.File, to string) error) error {
	return to.Do(func(root *os.Root) error {
		b, err := root.Open(filepath.Dir(to.Name))
		if err != nil {
			return err
		}
		defer b.Close()
		return p.Do(func(root *os.Root) error {
			a, err := root.Open(filepath.Dir(p.Name))
			if err != nil {
				return err
			}
			defer a.Close()
			return move(a, filepath.Base(p.Name), b, filepath.Base(to.Name))
		})
	})
}
