package mmapio

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// Mapping is a file's bytes, read-only: memory-mapped if the platform can,
// else read on demand. The package comment has the rules of lifetime.
type Mapping struct {
	path    string // as opened; "memory" or "reader" if there is no file
	size    uint64
	opened  Identity
	aliased atomic.Bool // like mapped, of a lazy mapping an expectation until it is made
	mapped  atomic.Bool

	// calls is held for reading while a call touches the backing, and for
	// writing by Close. Slice of memory takes no lock: it touches nothing.
	calls sync.RWMutex
	live  atomic.Pointer[backing] // nil after Close, and before the first touch of a lazy mapping

	making sync.Mutex               // held while open is called
	open   func() (*os.File, error) // of a mapping from Lazy, until Close; else nil
}

// backing is what a Mapping stands on: memory, or a reader if r is not nil.
type backing struct {
	data  []byte
	r     io.ReaderAt
	close func() error
	// isFile says that r is a file of this system, so that its size is true.
	isFile bool
	mapped bool // by the kernel
	// tellsResidency says that the kernel tells the truth about the pages in memory.
	tellsResidency bool
}

// newMapping returns a Mapping of size bytes in b. path is for errors.
func newMapping(path string, size uint64, b *backing) *Mapping {
	m := &Mapping{path: path, size: size}
	m.standOn(b)
	return m
}

// standOn makes b the backing of m.
func (m *Mapping) standOn(b *backing) {
	m.aliased.Store(b.r == nil)
	m.mapped.Store(b.mapped)
	m.live.Store(b)
}

// closeNothing closes a backing that owns nothing.
func closeNothing() error { return nil }

// FromBytes returns a Mapping of memory that the caller owns. Close does
// nothing to the memory; Guard does not know it.
func FromBytes(b []byte) *Mapping {
	if b == nil {
		b = []byte{} // a nil Bytes means closed
	}
	return newMapping("memory", uint64(len(b)), &backing{data: b[:len(b):len(b)], close: closeNothing})
}

// FromReaderAt returns a Mapping that reads from r on demand. The size is
// taken on trust until something is read; a negative one counts as zero.
// Close does not close r. r must allow concurrent calls, as io.ReaderAt demands. Errors call it by its
// method Name, if it has one as *os.File does.
func FromReaderAt(r io.ReaderAt, size int64) *Mapping {
	name := "reader"
	if r, ok := r.(interface{ Name() string }); ok {
		name = r.Name()
	}
	return newMapping(name, uint64(max(size, 0)), &backing{r: r, close: closeNothing})
}

// Size returns the length of the file in bytes when it was opened.
func (m *Mapping) Size() uint64 { return m.size }

// Aliased reports whether Slice returns the memory itself rather than copies.
func (m *Mapping) Aliased() bool { return m.aliased.Load() }

// Mapped reports whether the kernel backs the memory with the file, so that
// advice, residency and locking mean something. It is false for an empty file.
func (m *Mapping) Mapped() bool { return m.mapped.Load() }

// Identity returns what the file was when it was opened.
func (m *Mapping) Identity() Identity { return m.opened }

// Bytes returns the whole file if Aliased is true, else nil. The slice is
// read-only and lives until Close, after which Bytes returns nil. It is nil too
// if a lazy mapping cannot be made; Slice says why.
func (m *Mapping) Bytes() (b []byte) {
	m.withBacking("map", 0, 0, func(live *backing) error {
		b = live.data
		return nil
	})
	return b
}

// Slice returns the n bytes at offset off: read-only memory that lives until
// Close if Aliased is true, else a copy of the caller's own on a 64-byte
// boundary. Length and capacity are both n. A range that leaves the file is
// ErrRange; a copy that no memory could hold is ErrTooLarge.
func (m *Mapping) Slice(off, n uint64) ([]byte, error) {
	if b := m.live.Load(); b != nil && b.r == nil && m.isInRange(off, n) {
		return b.data[off : off+n : off+n], nil
	}
	return m.slice(off, n)
}

// slice does the slower part of Slice: it copies, maps first, or refuses.
func (m *Mapping) slice(off, n uint64) (out []byte, err error) {
	err = m.withBacking("slice", off, n, func(b *backing) error {
		if b.r == nil {
			out = b.data[off : off+n : off+n]
			return nil
		}
		out, err = Gather(n, func() (bool, error) { return b.probe(off, n) }, func(dst []byte, at uint64) error {
			_, err := b.readAt(dst, off+at)
			return err
		})
		return err
	})
	return out, err
}

// Probe reads the last of the n bytes at offset off: memory for them should not be taken
// before that has succeeded. It reports whether this proves that the others exist too, as in
// any file of this system. A reader of [FromReaderAt] may lie about its size, unless it is an
// *os.File: see [Gather].
func (m *Mapping) Probe(off, n uint64) (sure bool, err error) {
	err = m.withBacking("read", off, n, func(b *backing) error {
		sure, err = b.probe(off, n)
		return err
	})
	return sure, err
}

// ReadAt implements io.ReaderAt. A mapped page that cannot be read is a
// *FaultError, and nothing then counts as read.
func (m *Mapping) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, pathError("read", m.path, fmt.Errorf("%w: negative offset %d", ErrRange, off))
	}
	at := min(uint64(off), m.size)
	want := p[:min(uint64(len(p)), m.size-at)]
	err = m.withBacking("read", at, uint64(len(want)), func(b *backing) error {
		n, err = b.readAt(want, at)
		return err
	})
	if err == nil && len(want) < len(p) {
		err = io.EOF
	}
	return n, err
}

// Close ends the mapping: views of it must not be touched any more. It waits
// for running calls. A second Close does nothing and returns nil.
func (m *Mapping) Close() error {
	m.calls.Lock()
	defer m.calls.Unlock()
	m.open = nil
	b := m.live.Swap(nil)
	if b == nil {
		return nil
	}
	return pathError("close", m.path, b.close())
}

// withBacking runs f on the backing, which Close leaves alone meanwhile. It fails without a call of f if the mapping is closed or cannot be made,
// or the n bytes at off leave the file. op names the call in errors.
func (m *Mapping) withBacking(op string, off, n uint64, f func(*backing) error) error {
	m.calls.RLock()
	defer m.calls.RUnlock()
	b, err := m.backing()
	if err != nil {
		return pathError(op, m.path, err)
	}
	if !m.isInRange(off, n) {
		return pathError(op, m.path, fmt.Errorf("%w: offset %d, length %d, size %d", ErrRange, off, n, m.size))
	}
	return pathError(op, m.path, f(b))
}

// backing returns the mapping's memory or file. A lazy mapping makes it on the first call.
func (m *Mapping) backing() (*backing, error) {
	if b := m.live.Load(); b != nil {
		return b, nil
	}
	if m.open == nil {
		return nil, ErrClosed
	}
	return m.mapNow()
}

// isInRange reports whether the n bytes at off are in the file. No sum can overflow.
func (m *Mapping) isInRange(off, n uint64) bool {
	return off <= m.size && n <= m.size-off
}

// readAt fills p with the bytes at off, which are within the size. It fails if they cannot be read: a mapped page that faults is a
// *FaultError.
func (b *backing) readAt(p []byte, off uint64) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	if b.r == nil {
		err = Guard(func() error {
			n = copy(p, b.data[off:])
			return nil
		})
		return n, err
	}
	return readFull(b.r, p, off)
}

// ReadFull fills p with r's bytes at off. It fails if r does, or has too few bytes: io.ErrUnexpectedEOF.
func ReadFull(r io.ReaderAt, p []byte, off uint64) error {
	_, err := readFull(r, p, off)
	return err
}

// readFull does what ReadFull does, and returns how many bytes were read.
func readFull(r io.ReaderAt, p []byte, off uint64) (n int, err error) {
	n, err = r.ReadAt(p, int64(off))
	if n == len(p) { // a reader may say EOF along with the last byte
		return n, nil
	}
	if n < 0 || n > len(p) { // callers would index with it
		return 0, fmt.Errorf("the reader counts %d of %d bytes at offset %d", n, len(p), off)
	}
	if err == nil || err == io.EOF {
		err = fmt.Errorf("%w: %d of %d bytes at offset %d", io.ErrUnexpectedEOF, n, len(p), off)
	}
	return n, err
}

// probe does what Mapping.Probe does for the n bytes at off, which are within the size.
func (b *backing) probe(off, n uint64) (sure bool, err error) {
	if n > 0 {
		_, err = b.readAt(make([]byte, 1), off+n-1)
	}
	_, isFile := b.r.(*os.File) // whose size the system says, and not a reader of somebody's
	return err == nil && (b.r == nil || isFile || b.isFile), err
}
