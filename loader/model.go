package loader

import (
	"context"
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
	opts         Options
	path         string // that it was opened by
	source       *source
	files        []*file         // the shards in order, then the manifest if there is one
	tensors      []layout.Tensor // as they are stored, in file order
	names        *layout.Names
	weightTable  *scheme.Table // of logical tensors, or nil
	storedStates states        // of the stored tensors
	weightStates states        // of the logical ones
	gate         gate
	leaseGate    gate                      // of leases, which are in gate too
	tracedLeases sync.Map                  // tracedLease by *Lease, if Options.TraceLeases
	done         chan struct{}             // closed once the memory is gone
	closedAt     atomic.Pointer[time.Time] // of Close
	cache        cache.Cache
	cacheStore   content.Store // of what is put into the cache

	manifest *manifest.File         // nil without one
	metadata parsedOnce             // of the model, if it has a manifest
	config   atomic.Pointer[Config] // once it was read

	quantization struct { // what opening found out about it
		described layout.Metadata // beside the files
		err       error
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
		f := m.files[i]
		infos[i] = FileInfo{Path: f.path, Size: f.data.Size(), Layout: f.layout, ContentID: f.contentID}
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
	// ContentID differs between files whose bytes differ, and between the versions of one: it is made of what the system says
	// of a file's inode, or is a [Source]'s own. It is "" if nothing is known, as of memory and of a file that was just written.
	// Writes through a shared mapping may leave it as it is: the system need not date a page that is dirty already.
	ContentID string
}

// Close closes the model. Its files are released once no lease and no running call needs them. Close does
// not wait for that: see Done. If a reader of the caller's reads the files, Close ends the reads outside of leases: see
// OpenReaderAt. A large cache that goes with the model costs a collection of the heap in the background:
// see Options.CacheBytes. A second Close does nothing and returns ErrClosed. An error of unmapping after
// Close has returned goes to Options.Logger.
func (m *Model) Close() error {
	now := time.Now()
	m.closedAt.CompareAndSwap(nil, &now)
	first, last := m.gate.close()
	if !first {
		return m.closedError()
	}
	if _, unleased := m.leaseGate.close(); unleased {
		m.source.endReads()
	}
	if last {
		return m.release()
	}
	return nil
}

// enter holds the model open until leave. If the model is closed, it returns ErrClosed, and leave must not be called.
func (m *Model) enter() error {
	if !m.gate.enter() {
		return m.closedError()
	}
	return nil
}

// enterIfOpenOrLeased holds the model open until leave, for a call of one of its tensors. It returns true if the model is open, or if
// anybody still has a lease of the closed model. Otherwise it returns false, and leave must not be called.
func (m *Model) enterIfOpenOrLeased() bool {
	if !m.gate.enterIfUsed() {
		return false
	}
	if m.gate.closed() && m.leaseGate.users() == 0 {
		m.leave()
		return false
	}
	return true
}

// leave ends what enter or enterIfOpenOrLeased began. If the model is closed and nobody uses it any more, it releases the memory.
func (m *Model) leave() {
	if m.gate.leave() {
		m.release()
	}
}

// release empties the cache, closes the files and their source, closes m.done, and calls Hooks.Gone. It runs once: after Close, when
// the last lease and the last call have ended. It fails if closing a file or the source does.
func (m *Model) release() error {
	m.cache.Clear()
	err := func() error {
		defer close(m.done) // also if closing a reader of the caller's panics
		return m.source.close()
	}()
	drained := time.Since(*m.closedAt.Load())
	if err != nil {
		m.log(slog.LevelError, "model not unmapped", "err", err)
	}
	m.log(slog.LevelDebug, "model gone", "drained", drained)
	if gone := m.opts.Hooks.Gone; gone != nil {
		gone(drained)
	}
	return err
}

// closedError returns ErrClosed with the model's path.
func (m *Model) closedError() error { return fmt.Errorf("%s: %w", m.path, ErrClosed) }

// log writes a record about the model, if there is a logger.
func (m *Model) log(level slog.Level, msg string, args ...any) {
	if m.opts.Logger != nil {
		m.opts.Logger.With("model", m.path).Log(context.Background(), level, msg, args...)
	}
}
