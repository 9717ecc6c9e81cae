package atomicfile

import (
	"io/fs"
	"os"
	"sync"
)

// Abandon removes the temporary files and locks of this process, which is about to end and cannot wait for its
// writers. Create and Commit fail from then on. It may be called at any time, from any goroutine. Windows removes no
// open files: they stay.
func Abandon() { temporaries.abandon() }

// temporaries has the temporary files and locks of this process, which Abandon removes.
var temporaries = registry{names: make(map[string]bool)}

// registry is a set of files by name.
type registry struct {
	mu          sync.Mutex
	names       map[string]bool
	isAbandoned bool // Abandon was called
}

// create creates the temporary file of target, and adds it to the registry: abandon happens before or after both. It first removes
// temporary files with the prefix that ended processes have left. It fails after abandon, or if the file cannot be created.
func (r *registry) create(target, prefix string, old os.FileInfo) (*os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isAbandoned {
		return nil, fs.ErrClosed
	}
	r.removeStaleLocked(prefix)
	f, err := createPermitted(target, prefix, old)
	if err == nil {
		r.names[f.Name()] = true
	}
	return f, err
}

// removeStale removes the temporary files with a prefix that ended processes have left.
func (r *registry) removeStale(prefix string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeStaleLocked(prefix)
}

// forget deletes name, of a file that was removed or renamed, from the registry.
func (r *registry) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.names, name)
}

// abandon does what Abandon does.
func (r *registry) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isAbandoned = true
	for name := range r.names {
		sys.remove(name)
	}
	clear(r.names)
}
