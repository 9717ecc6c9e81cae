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
	"slices"
	"strings"
	"time"
)

// ErrLink says that a file to write is a link or has a second name. It also says that a link on the way to it leads
// out of the folder.
var ErrLink = errors.New("nothing is written through a link in a cache: remove the link")

// Path is the path of a file or folder below a folder.
type Path struct {
	Dir  string // the folder, which links may lead to; "" for a folder that does not exist
	Name string // the path from Dir, which no link may lead out of Dir; "" for Dir itself
}

// String returns the path as the system's calls take it: p.Dir and p.Name, joined. Without p.Dir it returns "", at which nothing exists.
func (p Path) String() string {
	if p.Dir == "" {
		return ""
	}
	return filepath.Join(p.Dir, p.Name)
}

// Join returns the path of the file called name in the folder p. The parts of name are joined with the system's separators.
func (p Path) Join(name ...string) Path {
	return Path{p.Dir, filepath.Join(append([]string{p.Name}, name...)...)}
}

// Parent returns the path of the folder that p is in.
func (p Path) Parent() Path { return Path{p.Dir, filepath.Dir(p.Name)} }

// Unwritable reports whether err says that files cannot be written to: no permission, no space, or a file system that is read-only.
func Unwritable(err error) bool {
	return slices.ContainsFunc(unwritable, func(why error) bool { return errors.Is(err, why) })
}

// WithRoot opens the folder p.Dir and calls use with it: what use opens there cannot be reached by a link out of the folder. It fails if
// p.Dir cannot be opened, or if use does. It wraps the error of use with p's path, and with ErrLink for a link out of the folder.
func (p Path) WithRoot(use func(root *os.Root) error) error {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return p.wrapErr(use(root))
}

// wrapErr returns err, an error of package os, as a *fs.PathError that names p, or nil for nil. If err says that a link
// leads out of the folder, the result wraps ErrLink.
func (p Path) wrapErr(err error) error {
	if err == nil {
		return nil
	}
	op := "write"
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		op, err = strings.TrimSuffix(e.Op, "at"), e.Err // such as openat, for users: open
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		op, err = strings.TrimSuffix(e.Op, "at"), e.Err
	}
	if err.Error() == "path escapes from parent" { // of os.Root, which exports no such error
		err = ErrLink
	}
	return &fs.PathError{Op: op, Path: p.String(), Err: err}
}

// MkdirAll makes the folder p, and its parents. It fails if the system does, or with ErrLink if a link below p.Dir leads out of p.Dir.
func (p Path) MkdirAll() error {
	if err := os.MkdirAll(p.Dir, 0o777); err != nil {
		return err
	}
	return p.WithRoot(func(root *os.Root) error { return root.MkdirAll(filepath.Clean(p.Name), 0o777) })
}

// Open opens the file p with flag, as os.OpenFile does. It fails if the system does, and with ErrLink if p is a link or no regular
// file. With O_CREATE it also fails with ErrLink if the file has a second name (a hard link), which may be somebody's own.
func (p Path) Open(flag int) (f *os.File, err error) {
	err = p.WithRoot(func(root *os.Root) (err error) {
		if info, err := root.Lstat(p.Name); err == nil && !info.Mode().IsRegular() {
			return ErrLink
		}
		if f, err = root.OpenFile(p.Name, flag|nonblock, 0o666); err != nil {
			return err
		}
		open, err := f.Stat()
		if err == nil && flag&os.O_CREATE != 0 && linkCount(open) > 1 {
			err = ErrLink
		}
		if now, statErr := root.Lstat(p.Name); err == nil && statErr == nil && !now.Mode().IsRegular() {
			err = ErrLink // a link has come in place of the file since the first Lstat
		}
		if err != nil {
			f.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// OpenRegular opens the file of a cache at path for reading. It follows links. It fails if the system does, and for what is no regular
// file: opening or reading a pipe might wait forever.
func OpenRegular(path string) (*os.File, error) {
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

// Read returns the content of the regular file p. It fails as OpenRegular does, or if reading does.
func (p Path) Read() ([]byte, error) {
	f, err := OpenRegular(p.String())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Write makes p a file with the given text, synced to disk, in place of any file or link of that name. The file appears complete or
// not at all. Write makes the folder that p is in. It fails if the system does, or with ErrLink if a link leads out of p.Dir.
func (p Path) Write(text []byte) error {
	return p.replaceByTemporary(func(root *os.Root, name string) error {
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Sync(), f.Close())
	})
}

// Symlink makes p a symbolic link to target, in place of any file or link of that name. It makes the folder that p is in. It fails as
// Write does.
func (p Path) Symlink(target string) error {
	return p.replaceByTemporary(func(root *os.Root, name string) error { return root.Symlink(target, name) })
}

// temporaryName matches a name that Write and Symlink use for a moment.
var temporaryName = regexp.MustCompile(`\.[0-9a-f]{8}\.new$`)

// IsTemporary reports whether name is a temporary name of Write or Symlink.
func IsTemporary(name string) bool { return temporaryName.MatchString(name) }

// replaceByTemporary replaces the file p. create must make a file or link called name in root, and replaceByTemporary renames that to p. It
// makes the folder that p is in. It fails if create or the system does, and then leaves no temporary file.
func (p Path) replaceByTemporary(create func(root *os.Root, name string) error) error {
	if err := p.Parent().MkdirAll(); err != nil {
		return err
	}
	return p.WithRoot(func(root *os.Root) error {
		name := fmt.Sprintf("%s.%08x.new", p.Name, rand.Uint32()) // see temporaryName; another process may be here too
		err := create(root, name)
		if err == nil {
			err = root.Rename(name, p.Name)
		}
		if err != nil {
			root.Remove(name)
		}
		return err
	})
}

// Remove removes the file, link or empty folder p. It does nothing if p does not exist. It fails if the system does, or with ErrLink if
// a link leads out of p.Dir.
func (p Path) Remove() error {
	err := p.WithRoot(func(root *os.Root) error { return root.Remove(p.Name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Touch sets the times of access and modification of the file p to now. It fails if the system does, or with ErrLink if a link leads
// out of p.Dir.
func (p Path) Touch() error {
	now := time.Now()
	return p.WithRoot(func(root *os.Root) error { return root.Chtimes(p.Name, now, now) })
}

// IsFile reports whether p is the open file f itself, and not a symbolic link to it. It reports false if either cannot be examined.
func (p Path) IsFile(f *os.File) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	same := false
	p.WithRoot(func(root *os.Root) error {
		now, err := root.Lstat(p.Name)
		same = err == nil && os.SameFile(open, now)
		return nil
	})
	return same
}

// Rename renames the file p to target, which may be below another folder. It fails if the system does, or with ErrLink if a link leads out
// of p.Dir or target.Dir.
func (p Path) Rename(target Path) error {
	return p.betweenFolders(target, renameAt)
}

// Link makes p a hard link to the open file f. It fails if the system does, or with ErrLink if a link leads out of p.Dir. If another file
// has the path of f by now, it fails with fs.ErrNotExist.
func (p Path) Link(f *os.File) error {
	from, err := filepath.EvalSymlinks(f.Name())
	if err != nil {
		return err
	}
	err = Path{filepath.Dir(from), filepath.Base(from)}.betweenFolders(p, linkAt)
	if err == nil && !p.IsFile(f) { // another file was linked
		err = errors.Join(p.wrapErr(fs.ErrNotExist), p.Remove())
	}
	return err
}

// betweenFolders opens the folders in which p and target are, as fromDir and toDir, and calls move. from and to are the names of p and
// target in these folders. betweenFolders fails with ErrLink if a link leads out of p.Dir or target.Dir. It also fails if a folder cannot
// be opened, or if move does. Its errors name target alone.
func (p Path) betweenFolders(target Path, move func(fromDir *os.File, from string, toDir *os.File, to string) error) error {
	return target.WithRoot(func(root *os.Root) error {
		toDir, err := root.Open(filepath.Dir(target.Name))
		if err != nil {
			return err
		}
		defer toDir.Close()
		return p.WithRoot(func(root *os.Root) error {
			fromDir, err := root.Open(filepath.Dir(p.Name))
			if err != nil {
				return err
			}
			defer fromDir.Close()
			return move(fromDir, filepath.Base(p.Name), toDir, filepath.Base(target.Name))
		})
	})
}
