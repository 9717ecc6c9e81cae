// Package rooted writes below a folder that others may write to as well. No link that they have planted leads out
// of the folder, or from one of its files to another.
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

// ErrLink says that a file to write is a link or has a second name. It also says that a link on the way to it leads out of
// the folder.
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

// Do calls use with the folder. Errors name the whole path.
func (p Path) Do(use func(root *os.Root) error) error {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return p.about(use(root))
}

// about makes an error of package os one about p.
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

// MkdirAll makes the folder p, and all that lead to it.
func (p Path) MkdirAll() error {
	if err := os.MkdirAll(p.Dir, 0o777); err != nil {
		return err
	}
	return p.Do(func(root *os.Root) error { return root.MkdirAll(filepath.Clean(p.Name), 0o777) })
}

// Open opens the file itself, or makes it if flag says so. A link in its place is ErrLink, wherever it leads, and so is a
// second name of a file that may be made.
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
			err = ErrLink // planted meanwhile
		}
		if err != nil {
			f.Close()
		}
		return err
	})
	return f, err
}

// Regular opens the file at path, or the one that a link there leads to, for reading. A folder, a pipe or a device is an
// error: nobody may ever write to a planted pipe.
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

// Read returns what a regular file has.
func (p Path) Read() ([]byte, error) { return Read(p.String()) }

// Read returns what the regular file at path has.
func Read(path string) ([]byte, error) {
	f, err := Regular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Write writes a small file, which appears whole, in place of what is there.
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

// Symlink makes a link to target, in place of what is there.
func (p Path) Symlink(target string) error {
	return p.fresh(func(root *os.Root, name string) error { return root.Symlink(target, name) })
}

// newName is how the name of a file ends that is not whole yet.
var newName = regexp.MustCompile(`\.[0-9a-f]{8}\.new$`)

// IsNew reports whether name is that of a file or link which Write or Symlink has begun.
func IsNew(name string) bool { return newName.MatchString(name) }

// fresh lets begin make what takes the place of p, under another name.
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

// Remove removes the file, or the link that has its name. It need not be there.
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

// Is reports whether p itself is the file f, and no link to it.
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

// Rename gives the file the path to, which may be below another folder.
func (p Path) Rename(to Path) error {
	return p.both(to, renameAt)
}

// Link gives the open file f the second name p, if the file has the path from.
func (p Path) Link(from string, f *os.File) error {
	err := Path{filepath.Dir(from), filepath.Base(from)}.both(p, linkAt)
	if err == nil && !p.Is(f) {
		err = errors.Join(p.about(fs.ErrNotExist), p.Remove())
	}
	return err
}

// both calls move with the folders that p and to are in.
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
