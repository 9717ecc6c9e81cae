package atomicfile

import (
	"io/fs"
	"os"
	"sync"
)

// Abandon removes the temporary file of every File that is being written. It serves a process
// that is about to end and cannot wait for its writers. From then on nothing is created or
// committed. It may be called at any time, from any goroutine. Temporary files stay on systems
// that remove no open files, as Windows may not.
func Abandon() { temporaries.abandon() }

// temporaries are the files that Abandon has to remove: temporary ones and locks.
var temporaries = registry{names: make(map[string]bool)}

type registry struct {
	mu        sync.Mutex
	names     map[string]bool
	abandoned bool
}

// create makes a temporary file and remembers it, in one step for abandon.
func (r *registry) create(target, prefix string, old os.FileInfo) (*os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.abandoned {
		return nil, fs.ErrClosed
	}
	r.sweep(prefix)
	f, err := temp(target, prefix, old)
	if err == nil {
		r.names[f.Name()] = true
	}
	return f, err
}

// clean removes the temporary files with a prefix that ended processes have left.
func (r *registry) clean(prefix string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(prefix)
}

func (r *registry) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.names, name)
}

func (r *registry) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.abandoned = true
	for name := range r.names {
		sys.remove(name)
	}
	clear(r.names)
}
