package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// lockName is the file that locks a directory. It exists while files are renamed, and after a process was killed at
// that: the next process then takes it over.
const lockName = ".atomicfile.lock"

// waitLimit is how long a commit waits for another process's lock. Renames take milliseconds, but the disk may be busy.
var waitLimit = 30 * time.Second

const pollInterval = 5 * time.Millisecond

var (
	errLockedByOther = errors.New("another process has the lock")
	errBusy          = errors.New("another process is renaming files in the same directory, and does not finish")
)

// lockAll locks the directories of files against renames by other processes. It waits for their locks up to waitLimit
// each.
func (r *registry) lockAll(files []*File) (unlock func(), err error) {
	dirs, err := directories(files)
	if err != nil {
		return nil, err
	}
	var locks []*os.File
	unlock = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, f := range locks {
			r.unlock(f)
		}
	}
	for _, dir := range dirs {
		f, err := r.lock(dir)
		if err != nil {
			unlock()
			return nil, err
		}
		locks = append(locks, f)
	}
	return unlock, nil
}

// lock locks a directory. It waits up to waitLimit for another process that has it locked, and then fails with errBusy.
func (r *registry) lock(dir string) (f *os.File, err error) {
	for end := time.Now().Add(waitLimit); ; time.Sleep(pollInterval) {
		r.mu.Lock()
		f, err = r.tryLock(dir)
		r.mu.Unlock()
		if !errors.Is(err, errLockedByOther) {
			return f, err
		}
		if time.Now().After(end) {
			return nil, &fs.PathError{Op: "commit", Path: dir, Err: errBusy}
		}
	}
}

// tryLock locks a directory, and returns the file that is the lock. It fails with errLockedByOther if another process has it locked. The
// caller has locked r.mu.
func (r *registry) tryLock(dir string) (*os.File, error) {
	if r.isAbandoned {
		return nil, fs.ErrClosed
	}
	f, err := sys.lock(dir + lockName)
	if f != nil {
		r.names[f.Name()] = true
	}
	return f, err
}

// unlock removes the lock f of tryLock, or does nothing if f is nil. The caller has locked r.mu.
func (r *registry) unlock(f *os.File) {
	switch {
	case f == nil:
	case r.names[f.Name()]:
		delete(r.names, f.Name())
		unlock(f)
	default: // abandon has removed it, and another process may have a lock of that name by now
		f.Close()
	}
}

// directories lists the directories that files are renamed in, each once. If there are several, they have absolute
// paths and are sorted: every process locks them in that order.
func directories(files []*File) (dirs []string, err error) {
	for _, f := range files {
		if dir := dirOf(f.target); f.target != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) < 2 {
		return dirs, nil
	}
	for i, dir := range dirs {
		if dir, err = filepath.EvalSymlinks(orDot(dir)); err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err != nil {
			return nil, err
		}
		dirs[i] = dir + string(filepath.Separator)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}

// orDot returns dir, or "." for the empty name of the current directory.
func orDot(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}
