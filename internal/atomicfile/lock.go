package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// lockName is what the lock of a directory is called. It is there only while files get their
// names, or after a process was killed at that; the next one takes it over.
const lockName = ".atomicfile.lock"

// patience is how long a commit waits for another process. Renames take milliseconds, but the
// disk may be busy.
var patience = 30 * time.Second

const pause = 5 * time.Millisecond

var (
	errHeld = errors.New("held by another")
	errBusy = errors.New("another process is giving files in the same directory their names, and does not finish")
)

// lockAll makes sure that nobody else gives files their names in the directories of these.
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

// lock waits for the lock of a directory.
func (r *registry) lock(dir string) (f *os.File, err error) {
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		r.mu.Lock()
		f, err = r.tryLock(dir)
		r.mu.Unlock()
		if !errors.Is(err, errHeld) {
			return f, err
		}
		if time.Now().After(end) {
			return nil, &fs.PathError{Op: "commit", Path: dir, Err: errBusy}
		}
	}
}

// tryLock locks a directory unless another has. Its callers hold mu, as those of unlock do.
func (r *registry) tryLock(dir string) (*os.File, error) {
	if r.abandoned {
		return nil, fs.ErrClosed
	}
	f, err := sys.lock(dir + lockName)
	if f != nil {
		r.names[f.Name()] = true
	}
	return f, err
}

func (r *registry) unlock(f *os.File) {
	switch {
	case f == nil:
	case r.names[f.Name()]:
		delete(r.names, f.Name())
		unlock(f)
	default: // Abandon has removed it, and its name may be another's by now
		f.Close()
	}
}

// directories lists where files get their names, each once and in the order in which every
// process locks them.
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

func orDot(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}
