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

// lockDirs locks directories against renames by other processes. It waits for their locks up to waitLimit each.
func lockDirs(dirs []string) (unlock func(), err error) {
	var locks []*os.File
	unlock = func() {
		temporaries.Lock()
		defer temporaries.Unlock()
		for _, f := range locks {
			unlockDir(f)
		}
	}
	for _, dir := range dirs {
		f, err := lockDir(dir)
		if err != nil {
			unlock()
			return nil, err
		}
		locks = append(locks, f)
	}
	return unlock, nil
}

// lockDir locks a directory. It waits up to waitLimit for another process that has it locked, and then fails with errBusy.
func lockDir(dir string) (f *os.File, err error) {
	for end := time.Now().Add(waitLimit); ; time.Sleep(pollInterval) {
		temporaries.Lock()
		f, err = tryLockDir(dir)
		temporaries.Unlock()
		if !errors.Is(err, errLockedByOther) {
			return f, err
		}
		if time.Now().After(end) {
			return nil, &fs.PathError{Op: "commit", Path: dir, Err: errBusy}
		}
	}
}

// directories lists the directories that files are renamed in, each once. They have absolute paths and are sorted: every process
// locks them in that order.
func directories(files []*File) (dirs []string, err error) {
	for _, f := range files {
		if f.target == "" {
			continue
		}
		dir, err := filepath.EvalSymlinks(orDot(dirOf(f.target)))
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir+string(filepath.Separator))
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
