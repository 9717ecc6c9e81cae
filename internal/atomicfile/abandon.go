package atomicfile

import (
	"io/fs"
	"os"
	"sync"
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
