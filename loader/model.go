package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/scheme"
)

// Model is an open model: its tensors by name, and the mappings they live in.
type Model struct {
	opts    Options
	path    string // that it was opened by
	from    source
	files   []file          // the shards in order, then the manifest if there is one
	tensors []layout.Tensor // as they are stored, in file order
	names   *layout.Names
	schemes *scheme.Table // of logical tensors, or nil
	states  func() states // of the stored tensors
	weights func() states // of the logical ones
	gate    gate
	leases  gate                      // of leases, which are in gate too
	traced  sync.Map                  // tracedLease by *Lease, if Options.TraceLeases
	done    chan struct{}             // closed once the memory is gone
	closing atomic.Pointer[time.Time] // of Close
	cache   cache.Cache
	store   content.Store // of what is put into the cache

	manifest *manifest.File // nil without one
	metadata *parsed        // of the model, if it has a manifest
	config   atomic.Value   // *Config, once it was read

	quantization struct { // what opening found out about it
		said layout.Metadata // beside the files
		err  error
	}
}

// Path returns the path that the model was opened by, or the name of its reader.
func (m *Model) Path() string { return m.path }

// Format returns the format of the model's files, or of the shards of a sharded model.
func (m *Model) Format() layout.Format { return m.files[0].index.Format }

// Files lists the files of the model: the shards of a sharded one in order, then its
// manifest, which has no tensors. Their Layout gives access to what only their format has,
// by type assertion to its package's File, or to *[manifest.File].
func (m *Model) Files() []FileInfo {
	infos := make([]FileInfo, len(m.files))
	for i := range m.files {
		f := &m.files[i]
		infos[i] = FileInfo{Path: f.path, Size: f.data.Size(), Layout: f.layout}
	}
	return infos
}

// FileInfo describes one file of a model. It stays valid after Close, but for methods of
// Layout that take an Input. Values that Layout hands out belong to the model and must not be
// modified.
type FileInfo struct {
	Path   string      // or the name of the reader
	Size   uint64      // in bytes
	Layout layout.File // the decoded head: of the format's own type
}

// Close lets go of the files once no lease and no running call needs them. It does not
// wait for these: Done does. Reads by a reader of the caller's may never end: without a lease they
// are ended, see OpenReaderAt. A large cache that goes with the model costs a collection of the heap
// in the background: see Options.CacheBytes. A second Close does nothing and returns ErrClosed. An error of
// unmapping after Close has returned goes to Options.Logger.
func (m *Model) Close() error {
	now := time.Now()
	m.closing.CompareAndSwap(nil, &now)
	first, last := m.gate.close()
	if !first {
		return m.closedError()
	}
	if _, unleased := m.leases.close(); unleased {
		m.from.end()
	}
	if last {
		return m.release()
	}
	return nil
}

// enter holds the model for the length of a call, until leave.
func (m *Model) enter() error {
	if !m.gate.enter() {
		return m.closedError()
	}
	return nil
}

// join holds the model for the length of a call of one of its tensors, until leave. A closed model allows that while it
// has leases. Otherwise join returns false.
func (m *Model) join() bool {
	if !m.gate.join() {
		return false
	}
	if m.gate.closed() && m.leases.inside() == 0 {
		m.leave()
		return false
	}
	return true
}

// leave ends enter or join. The last call of a closed model releases its memory.
func (m *Model) leave() {
	if m.gate.leave() {
		m.release()
	}
}

// release drops the cache, unmaps and closes the files, and closes m.done. Then it logs that, and calls Hooks.Gone. It
// runs once, after Close and after the last call. The error is that of closing.
func (m *Model) release() error {
	m.cache.Clear()
	err := func() error {
		defer close(m.done) // and if a reader of the caller's panics
		return closeAll(m.files, m.from)
	}()
	drained := time.Since(*m.closing.Load())
	if err != nil {
		m.log(slog.LevelError, "model not unmapped", "err", err)
	}
	m.log(slog.LevelDebug, "model gone", "drained", drained)
	if gone := m.opts.Hooks.Gone; gone != nil {
		gone(drained)
	}
	return err
}

// closeAll closes all files, and then their source. It returns all errors.
func closeAll(files []file, from source) (err error) {
	for i := range files {
		err = errors.Join(err, files[i].data.Close())
	}
	return errors.Join(err, from.close())
}

func (m *Model) closedError() error { return fmt.Errorf("%s: %w", m.path, ErrClosed) }

// log writes a record about the model, if there is a logger.
func (m *Model) log(level slog.Level, msg string, args ...any) {
	if m.opts.Logger != nil {
		m.opts.Logger.With("model", m.path).Log(context.Background(), level, msg, args...)
	}
}
