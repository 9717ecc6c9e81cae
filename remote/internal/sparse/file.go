package sparse

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// ChunkBytes is the unit of what is there, and partBytes the most that one fetch brings.
const (
	ChunkBytes  = 64 << 10
	partChunks  = 64
	partBytes   = partChunks * ChunkBytes
	headerBytes = 64
	version     = 2
	magic       = "TMSPARSE"
	mapSuffix   = ".map"
	dataSuffix  = ".data"

	// maxBytes bounds the size of a file, which is a server's word: its set of chunks takes memory.
	maxBytes = 16 << 40
)

// HeadBytes is how much a read of the file's beginning brings: formats have their index there.
const HeadBytes = 256 << 10

// ErrOther means that a name stands for other content in a File that is open: servers may say several sizes
// of one digest.
var ErrOther = errors.New("a process has other content open under this name")

// A Fetch fills p with the source's bytes from off on, or fails.
type Fetch func(ctx context.Context, p []byte, off int64) error

// Options describe a file and where its bytes come from.
type Options struct {
	// Size is the file's length in bytes.
	Size int64
	// Identity names the content, such as a digest or an address with an ETag. A file on disk
	// with another identity or size is begun anew, unless it is open.
	Identity string
	// Name is what people call the file.
	Name string
	// Fetch brings bytes. It is called concurrently.
	Fetch Fetch
	// Version, if set, is called after Fetch, and tells the version of the source from others that Identity does not. Bytes of
	// several versions do not mix, in no process. Bytes of a source that has none, "", are not there for the next one.
	Version func() string
	// Parallel is how many fetches one read may have under way; 0 means 8.
	Parallel int
	// Asked, if set, counts the reads of several Files that wait for bytes: Fill of each gives way to all.
	Asked *atomic.Int64
	// Full, if set, hears once that the disk takes no more, and why.
	Full func(error)
}

// File is a file that fills as it is read. It is safe for concurrent use.
type File struct {
	opts    Options
	path    rooted.Path // without suffix
	data    *os.File    // nil in memory only
	mapFile *os.File    // the map: a byte for each chunk
	present chunks      // that data has

	life    context.Context // of fetches, until Close
	end     context.CancelFunc
	running parallel.Group // fetches, and what they have yet to mark

	mu      sync.Mutex
	flights map[int64]*flight // by their first chunk
	streams []stream          // the latest last

	disk committer
	full atomic.Pointer[error] // why nothing more is written

	version atomic.Pointer[string] // of the bytes that are there; nil before there are any
	header  sync.Mutex             // held with the lock of the map's header, which another goroutine would share

	finished atomic.Bool
	wrong    atomic.Pointer[error] // of the check of all bytes
	asked    *atomic.Int64         // reads that wait for bytes, to which Fill gives way
}

// DataPath returns the name of the bytes of the File called path.
func DataPath(path rooted.Path) rooted.Path {
	return rooted.Path{Dir: path.Dir, Name: path.Name + dataSuffix}
}

// MapPath returns the name of the map.
func MapPath(path rooted.Path) rooted.Path {
	return rooted.Path{Dir: path.Dir, Name: path.Name + mapSuffix}
}

// Open opens the file called path, or makes it without bytes. The directory must exist. A file that cannot be written
// to is opened for reading. Open fails with rooted.ErrLink for links, and with ErrOther if others have the file open.
func Open(path rooted.Path, opts Options) (*File, error) {
	if opts.Size < 0 || opts.Size > maxBytes {
		return nil, fmt.Errorf("%w: a file of %d bytes, the most is %d", errors.ErrUnsupported, opts.Size, int64(maxBytes))
	}
	if opts.Parallel <= 0 {
		opts.Parallel = 8
	}
	f := &File{opts: opts, path: path, present: newChunks(chunksOf(opts.Size)), flights: make(map[int64]*flight)}
	f.asked = cmp.Or(opts.Asked, new(atomic.Int64))
	f.life, f.end = context.WithCancel(context.Background())
	f.disk.sync = func() error { return f.data.Sync() }
	for tries := 0; ; tries++ {
		named, err := f.openFiles()
		if Unwritable(err) { // read what is present
			f.closeFiles()
			f.data, f.mapFile = nil, nil
			if f.openReadOnly(err) == nil {
				return f, nil
			}
		}
		if named && err == nil {
			return f, nil
		}
		f.closeFiles()
		f.data, f.mapFile = nil, nil
		if err == nil { // removed meanwhile
			err = fmt.Errorf("%s leads to other files each time: %w", f.path, ErrOther)
		}
		if !errors.Is(err, ErrOther) || tries == maxTries {
			return nil, err
		}
		time.Sleep(rand.N(10 * time.Millisecond)) // two may begin at once, and have not locked ranges
	}
}

// maxTries is how often Open tries to begin files that others have open, or remove.
const maxTries = 10

// openReadOnly opens the data file and the map for reading, since they cannot be written to: why is the error of that.
// It fails with fs.ErrNotExist if they are of other content.
func (f *File) openReadOnly(why error) (err error) {
	f.full.Store(&why)
	if f.mapFile, err = MapPath(f.path).Open(os.O_RDONLY); err != nil {
		return err
	}
	if f.data, err = DataPath(f.path).Open(os.O_RDONLY); err != nil {
		return err
	}
	if have, err := f.current(); err != nil || !have {
		return cmp.Or(err, error(fs.ErrNotExist))
	}
	return f.reload(0, f.present.n)
}

// Unwritable reports whether err says that files cannot be written to: no right, no space, or a file system
// that is read-only.
func Unwritable(err error) bool {
	return slices.ContainsFunc(unwritable, func(why error) bool { return errors.Is(err, why) })
}

func chunksOf(size int64) int64 { return (size + ChunkBytes - 1) / ChunkBytes }

// openFiles opens or makes the data file and the map, and reads the map, under a lock against other processes. Files of
// other content it empties, or fails with ErrOther if a File has them open. named is false if both were removed
// meanwhile.
func (f *File) openFiles() (named bool, err error) {
	f.version.Store(nil)
	if f.mapFile, err = MapPath(f.path).Open(os.O_RDWR | os.O_CREATE); err != nil {
		return false, err
	}
	unlock, err := lockRange(f.life, f.mapFile, 0, headerBytes)
	if err != nil {
		return false, err
	}
	defer unlock()
	if f.data, err = DataPath(f.path).Open(os.O_RDWR | os.O_CREATE); err != nil {
		return false, err
	}
	if !f.lockNamed() {
		return false, nil
	}
	switch have, err := f.current(); {
	case err != nil:
		return false, err
	case !have && !lockExclusive(f.data):
		return false, ErrOther
	case !have:
		err := f.begin()
		return f.lockNamed(), err // the lock is shared again
	}
	MapPath(f.path).Touch() // for whoever looks for what was not used for long
	return true, f.reload(0, f.present.n)
}

// lockNamed locks the data file against Discard of any process, by a shared lock. It reports whether both files still
// have their names.
func (f *File) lockNamed() bool {
	lockShared(f.data)
	return DataPath(f.path).Is(f.data) && MapPath(f.path).Is(f.mapFile)
}

// current reports whether the data file and the map are those of f's identity and size. It reports false if the map has
// chunks and no version.
func (f *File) current() (bool, error) {
	have := make([]byte, headerBytes)
	if _, err := f.mapFile.ReadAt(have, 0); err != nil && err != io.EOF {
		return false, err
	}
	info, err := f.data.Stat()
	if err != nil || string(have) != string(f.mapHeader()) || info.Size() != f.opts.Size {
		return false, err
	}
	unknown := false // the version: the system may have stopped before it was on disk
	err = f.eachMark(0, f.present.n, func(int64, []byte) { unknown = unknown || !f.trustsMap() })
	return err == nil && !unknown, err
}

// begin empties the data file and the map, and makes them those of f without bytes. It writes the map's header last:
// the process may be killed before.
func (f *File) begin() error {
	f.version.Store(nil)
	for _, step := range []func() error{
		func() error { return f.mapFile.Truncate(0) },
		func() error { return f.data.Truncate(0) },
		func() error { return f.data.Truncate(f.opts.Size) },
		func() error { return f.mapFile.Truncate(headerBytes + f.present.n) },
		func() error { _, err := f.mapFile.WriteAt([]byte(f.opts.Name), headerBytes+f.present.n); return err },
		func() error { _, err := f.mapFile.WriteAt(f.mapHeader(), 0); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// mapHeader returns the header of the map that f's identity and size require: see the package's documentation.
func (f *File) mapHeader() []byte {
	b := make([]byte, 0, headerBytes)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, ChunkBytes)
	b = binary.LittleEndian.AppendUint64(b, uint64(f.opts.Size))
	id := sha256.Sum256([]byte(f.opts.Identity))
	b = append(b, id[:]...)
	return append(b, make([]byte, 8)...)
}

// reload reads the map's bytes of chunks [lo, hi), and notes those that are present. It ignores them if they may be of
// another version than the source's.
func (f *File) reload(lo, hi int64) error {
	return f.eachMark(lo, hi, func(at int64, marks []byte) {
		if !f.trustsMap() {
			return
		}
		for i, b := range marks {
			if b == 1 {
				f.present.add(at + int64(i))
			}
		}
	})
}

// eachMark calls use with the map's bytes of chunks [lo, hi), up to 64 Ki at a time: marks[i] is 1 if chunk at+i is
// present. It skips those without any such chunk.
func (f *File) eachMark(lo, hi int64, use func(at int64, marks []byte)) error {
	const step = 1 << 16
	buf := make([]byte, min(step, hi-lo))
	for ; lo < hi; lo += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), hi-lo)]
		if _, err := f.mapFile.ReadAt(buf, headerBytes+lo); err != nil {
			return err
		}
		if bytes.IndexByte(buf, 1) >= 0 {
			use(lo, buf)
		}
	}
	return nil
}

// Have returns how many bytes are there.
func (f *File) Have() int64 {
	have := f.present.count() * ChunkBytes
	if last := f.present.n - 1; last >= 0 && f.present.has(last) {
		have -= f.present.n*ChunkBytes - f.opts.Size
	}
	return have
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	return f.ReadAtContext(f.life, p, off)
}

// ReadAtContext reads, and first brings what is not there. It ends with ctx; what it has asked for
// goes on only if another read waits for the same bytes.
func (f *File) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return ReadAt(ctx, f, f.opts.Size, p, off)
}

// Vectored reads into several buffers at once.
type Vectored interface {
	// ReadVector fills one buffer after another with the consecutive bytes from off on, or fails.
	ReadVector(ctx context.Context, bufs [][]byte, off int64) error
}

// vectors are for ReadAt, which then allocates nothing for bytes that are there.
var vectors = sync.Pool{New: func() any { return new([1][]byte) }}

// ReadAt reads p from offset off of r, which has size bytes, by its ReadVector. It returns what io.ReaderAt's ReadAt
// does.
func ReadAt(ctx context.Context, r Vectored, size int64, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	want := p[:min(int64(len(p)), max(size-off, 0))]
	if len(want) > 0 {
		one := vectors.Get().(*[1][]byte)
		one[0] = want
		if err := r.ReadVector(ctx, one[:], off); err != nil {
			return 0, err
		}
		one[0] = nil
		vectors.Put(one)
	}
	if len(want) < len(p) {
		return len(want), io.EOF
	}
	return len(want), nil
}

// ReadVector fills one buffer after another with the consecutive bytes from off on. It fetches missing chunks first. If
// the disk is full, it reads from the source.
func (f *File) ReadVector(ctx context.Context, bufs [][]byte, off int64) error {
	cached, err := f.Bring(ctx, off, TotalBytes(bufs))
	if err != nil {
		return err
	}
	for _, b := range bufs {
		if cached {
			_, err = f.data.ReadAt(b, off)
		} else {
			err = f.get(ctx, b, off)
		}
		if err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}

// TotalBytes returns how many bytes the buffers of a read take.
func TotalBytes(bufs [][]byte) (n int64) {
	for _, b := range bufs {
		n += int64(len(b))
	}
	return n
}

// Has reports whether the n bytes at off are there.
func (f *File) Has(off, n int64) bool {
	if off < 0 || n < 0 || off > f.opts.Size || n > f.opts.Size-off {
		return false
	}
	lo, hi := off/ChunkBytes, chunksOf(off+n)
	from, _ := f.present.missing(lo, hi, 1)
	return n == 0 || from == hi
}

// Data returns the open file of the bytes. It stays the File's.
func (f *File) Data() *os.File { return f.data }

// Close ends all fetches and closes the files, which stay. A panic of Options.Fetch or Options.Full that no read waits
// for reaches the caller of Close.
func (f *File) Close() (err error) {
	f.end()
	defer func() { err = f.closeFiles() }() // also if Wait panics
	f.running.Wait()
	return nil
}

// closeFiles closes the data file and the map, those of them that are open.
func (f *File) closeFiles() error {
	var errs []error
	for _, file := range []*os.File{f.data, f.mapFile} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// Finish renames the data file to final, and removes the map. The File goes on reading. It fails if bytes are missing,
// or if check, which reads them all, fails.
//
// If check fails with layout.ErrChecksum, the bytes are not what the identity names. Finish then removes both files,
// and reads fail with that error.
func (f *File) Finish(final rooted.Path, check func(io.Reader) error) error {
	if f.Have() < f.opts.Size {
		return fmt.Errorf("%s: %d of %d bytes are there", f.path, f.Have(), f.opts.Size)
	}
	switch err := check(io.NewSectionReader(f.data, 0, f.opts.Size)); {
	case errors.Is(err, layout.ErrChecksum):
		f.wrong.Store(&err)
		return errors.Join(err, f.Remove())
	case err != nil:
		return err
	}
	if err := f.disk.commit(); err != nil {
		return err
	}
	return f.whileNamed(func() error {
		if err := DataPath(f.path).Rename(final); err != nil {
			return err
		}
		f.finished.Store(true)
		return MapPath(f.path).Remove()
	})
}

// whileNamed calls change, which may rename or remove the two files, under a lock against other processes. If the names
// are those of other files by now, it fails with ErrOther instead.
func (f *File) whileNamed(change func() error) error {
	f.header.Lock()
	defer f.header.Unlock()
	unlock, err := lockRange(context.Background(), f.mapFile, 0, headerBytes)
	if err != nil {
		return err
	}
	defer unlock()
	if !DataPath(f.path).Is(f.data) || !MapPath(f.path).Is(f.mapFile) {
		return fmt.Errorf("%s: %w", f.path, ErrOther)
	}
	return change()
}

// Finished reports whether the bytes have their final name.
func (f *File) Finished() bool { return f.finished.Load() }

// Remove removes the data file and the map, unless their names are those of other files by now. The File goes on
// reading.
func (f *File) Remove() error {
	f.finished.Store(true)
	err := f.whileNamed(func() error { return Remove(f.path) })
	if errors.Is(err, ErrOther) {
		return nil
	}
	return err
}

// Remove removes both files of the File called path.
func Remove(path rooted.Path) error {
	return errors.Join(MapPath(path).Remove(), DataPath(path).Remove())
}
