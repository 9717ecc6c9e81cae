package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// Abandon removes the temporary files and locks of this process, which is about to end and cannot wait for its
// writers. Create and Commit fail from then on. It may be called at any time, from any goroutine. Windows removes no
// open files: they stay.
func Abandon() {
	temporaries.Lock()
	defer temporaries.Unlock()
	temporaries.isAbandoned = true
	for name := range temporaries.names {
		sys.remove(name)
	}
	clear(temporaries.names)
}

// temporaries has the temporary files and locks of this process by name, which Abandon removes. Its lock is held while
// one of them is created and added: Abandon comes before or after both.
var temporaries = struct {
	sync.Mutex
	names       map[string]bool
	isAbandoned bool // Abandon was called
}{names: make(map[string]bool)}

// tryLockDir locks a directory, and returns the file that is the lock, or nil where there are no locks. It fails with errLockedByOther
// if another process has it locked. The caller has locked temporaries.
func tryLockDir(dir string) (*os.File, error) {
	if temporaries.isAbandoned {
		return nil, fs.ErrClosed
	}
	f, err := sys.lock(dir + lockName)
	if f != nil {
		temporaries.names[f.Name()] = true
	}
	return f, err
}

// unlockDir removes the lock f of tryLockDir, or does nothing if f is nil. The caller has locked temporaries.
func unlockDir(f *os.File) {
	switch {
	case f == nil:
	case temporaries.names[f.Name()]:
		delete(temporaries.names, f.Name())
		unlock(f)
	default: // Abandon has removed it, and another process may have a lock of that name by now
		f.Close()
	}
}

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
		dir, err := filepath.EvalSymlinks(cmp.Or(dirOf(f.target), "."))
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

const (
	maxBase   = 100 // bytes of the set's or the file's name that a temporary name repeats
	hexDigits = 8   // at the end of a temporary name
)

// temporaryPrefix returns the beginning of temporary names in the directory of target, such as "dir/.model.apr.tmp-". It has the name of
// the set that target belongs to, or without one target's own name.
func temporaryPrefix(target, set string) string {
	dir, base := filepath.Split(target)
	base = cmp.Or(set, base)
	return fmt.Sprintf("%s.%s.tmp-", dir, strings.ToValidUTF8(base[:min(len(base), maxBase)], ""))
}

// removeStaleTemporaries removes the temporary files with a prefix whose writers have ended, unless their directory cannot be read. The
// caller has locked temporaries. On a full disk, on which no lock can be made, it removes them without: no other process has a lock then
// either.
func removeStaleTemporaries(prefix string) {
	for name := range temporaries.names {
		if strings.HasPrefix(name, prefix) {
			return // it was swept when the first file with this prefix was created
		}
	}
	dir, base := filepath.Split(prefix)
	entries, _ := os.ReadDir(cmp.Or(dir, "."))
	var lock *os.File
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), base)
		if !ok || len(digits) != hexDigits || strings.Trim(digits, "0123456789abcdef") != "" {
			continue
		}
		if lock == nil {
			var err error
			if lock, err = tryLockDir(dir); err != nil && !errors.Is(err, errFull) {
				return // it may be renaming old files to temporary names, which look stale
			}
		}
		removeStale(dir + e.Name())
	}
	unlockDir(lock)
}
