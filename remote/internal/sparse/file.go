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
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensormap/tensormap/internal/flight"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// ChunkBytes is the size of a chunk, the unit of what is present. One fetch is of at most maxFetchChunks chunks. headerBytes is the size
// of the map's header, and version the version of its format.
const (
	ChunkBytes     = 64 << 10
	maxFetchChunks = 64
	maxFetchBytes  = maxFetchChunks * ChunkBytes
	headerBytes    = 64
	version        = 2
	magic          = "TMSPARSE"
	mapSuffix      = ".map"
	dataSuffix     = ".data"

	// maxBytes bounds the size of a file, which is a server's word: its set of chunks takes memory.
	maxBytes = 16 << 40
)

// HeadBytes is the minimum number of bytes that a read of the file's beginning fetches: formats have their index there.
const HeadBytes = 256 << 10

// ErrOtherContent means that a name stands for other content in a File that is open: servers may say several sizes
// of one digest.
var ErrOtherContent = errors.New("a process has other content open under this name")

// A Fetch fills p with the source's bytes from off on, or fails.
type Fetch func(ctx context.Context, p []byte, off int64) error

// Options describe a file and where its bytes come from.
type Options struct {
	// Size is the file's length in bytes.
	Size int64
	// Identity names the content, such as a digest or an address with an ETag. A file on disk
	// with another identity or size is begun anew, unless it is open.
	Identity string
	// Name is the file's name for messages and listings.
	Name string
	// Fetch fetches bytes. It is called concurrently.
	Fetch Fetch
	// Version, if set, is called after Fetch, and returns the version of the source, which Identity does not tell. Bytes of two
	// versions never mix, whichever processes fetch them. Bytes of a source that has no version, "", serve this File only.
	Version func() string
	// WaitingReads, if set, counts the reads of several Files that wait for bytes: Fill of each lets all of them go first.
	WaitingReads *atomic.Int64
	// OnFull, if set, is called once when the disk takes no more, with the reason.
	OnFull func(error)
}

// File is a file that fills as it is read. It is safe for concurrent use.
type File struct {
	opts          Options
	path          rooted.Path // without suffix
	data          *os.File    // nil in memory only
	mapFile       *os.File    // marks the chunks that are present: see the package's documentation
	presentChunks chunkSet    // that data has

	fetchCtx   context.Context // of fetches, until Close
	endFetches context.CancelFunc
	fetches    flight.Group[int64, struct{}] // runningFetches, by their first chunks
	fetching   sync.RWMutex                  // locked for reading by calls of fetchRange: Close waits for them
	marking    parallel.Group                // of fetched chunks in the map

	mu             sync.Mutex
	runningFetches map[int64]*runningFetch // by their first chunks
	limits         map[int64]int64         // of series of reads: see endOfReadAhead

	syncData func() error // syncs the data file to disk: see sync
	syncMu   sync.Mutex   // held during a sync; guards syncErr
	syncErr  error        // of the latest sync
	mustSync atomic.Bool  // no sync has begun since the latest call of sync

	stopErr atomic.Pointer[error] // why f writes no more bytes to its files: the disk is full, or they cannot be written to; nil if it does

	version  atomic.Pointer[string] // of the bytes that are there; nil before there are any
	headerMu sync.Mutex             // held with the lock of the map's header, which another goroutine would share

	finished     atomic.Bool
	checksumErr  atomic.Pointer[error] // of the check of all bytes
	waitingReads *atomic.Int64         // the number of reads that wait for bytes: Fill lets them go first
}

// DataPath returns the path of the file with the bytes of the File called path.
func DataPath(path rooted.Path) rooted.Path {
	return rooted.Path{Dir: path.Dir, Name: path.Name + dataSuffix}
}

// MapPath returns the path of the map of the File called path.
func MapPath(path rooted.Path) rooted.Path {
	return rooted.Path{Dir: path.Dir, Name: path.Name + mapSuffix}
}

// Open opens the file called path, which is two files on disk: the data file and the map. If one is missing, or the two have other content,
// Open makes both anew, without bytes. The directory must exist. If the two have this content but cannot be written to, Open opens them for
// reading. Open fails with errors.ErrUnsupported for a size beyond maxBytes, and with rooted.ErrLink if one of the two is a link. Another
// File may have other content open there, or a process may remove the two meanwhile. Open then tries maxRetries times more, and fails with
// ErrOtherContent in the end. It also fails if the system does.
func Open(path rooted.Path, opts Options) (*File, error) {
	if opts.Size < 0 || opts.Size > maxBytes {
		return nil, fmt.Errorf("%w: a file of %d bytes, the most is %d", errors.ErrUnsupported, opts.Size, int64(maxBytes))
	}
	f := &File{opts: opts, path: path, presentChunks: newChunks(chunkCount(opts.Size)), runningFetches: make(map[int64]*runningFetch), limits: make(map[int64]int64)}
	f.waitingReads = cmp.Or(opts.WaitingReads, new(atomic.Int64))
	f.fetchCtx, f.endFetches = context.WithCancel(context.Background())
	f.syncData = func() error { return f.data.Sync() }
	for retries := 0; ; retries++ {
		err := f.openFiles()
		if rooted.Unwritable(err) { // read what is present
			f.closeFiles()
			if f.openReadOnly(err) == nil {
				return f, nil
			}
		}
		if err == nil {
			return f, nil
		}
		f.closeFiles()
		if !errors.Is(err, ErrOtherContent) || retries == maxRetries {
			return nil, err
		}
		// Where ranges cannot be locked, two processes may refuse each other's new files: a random pause lets one go first.
		time.Sleep(rand.N(10 * time.Millisecond))
	}
}

// maxRetries is how often Open tries again if others have the files open with other content, or remove them.
const maxRetries = 10

// openReadOnly opens the data file and the map for reading, and reads the map. writeErr is the error with which opening them for writing
// has failed. writeErr becomes f.stopErr, so that f writes nothing to the two. openReadOnly fails with fs.ErrNotExist if one of them is
// missing, or if they have other content than f. It also fails if they cannot be opened or read. After an error the caller closes the
// files.
func (f *File) openReadOnly(writeErr error) (err error) {
	f.stopErr.Store(&writeErr)
	if f.mapFile, err = MapPath(f.path).Open(os.O_RDONLY); err != nil {
		return err
	}
	if f.data, err = DataPath(f.path).Open(os.O_RDONLY); err != nil {
		return err
	}
	if matches, err := f.readMap(); err != nil || !matches {
		return cmp.Or(err, error(fs.ErrNotExist))
	}
	return nil
}

// chunkCount returns the number of chunks of a file of size bytes. The last chunk may be shorter.
func chunkCount(size int64) int64 { return (size + ChunkBytes - 1) / ChunkBytes }

// openFiles opens the data file and the map, or makes them, and reads the map. It locks the map's header against other processes meanwhile.
// If the two have other content than f, it empties them. It fails if they cannot be opened, read or written. It fails with ErrOtherContent
// if another File has them open with other content, or if they were removed meanwhile. After an error the caller closes the files.
func (f *File) openFiles() (err error) {
	f.version.Store(nil)
	if f.mapFile, err = MapPath(f.path).Open(os.O_RDWR | os.O_CREATE); err != nil {
		return err
	}
	unlock, err := lockRange(f.fetchCtx, f.mapFile, 0, headerBytes)
	if err != nil {
		return err
	}
	defer unlock()
	if f.data, err = DataPath(f.path).Open(os.O_RDWR | os.O_CREATE); err != nil {
		return err
	}
	rooted.LockShared(f.data) // until it is closed, so that Discard in no process removes it
	if err := f.checkNames(); err != nil {
		return err
	}
	matches, err := f.readMap()
	if err != nil {
		return err
	}
	if matches {
		MapPath(f.path).Touch() // its time tells PruneCache when the file was last used
		return nil
	}
	if !rooted.TryLock(f.data) {
		return ErrOtherContent
	}
	if err := f.resetFiles(); err != nil {
		return err
	}
	rooted.LockShared(f.data) // the exclusive lock becomes shared again
	return f.checkNames()
}

// checkNames returns ErrOtherContent unless the path of the data file still leads to f.data, and the path of the map to f.mapFile.
func (f *File) checkNames() error {
	if !DataPath(f.path).IsFile(f.data) || !MapPath(f.path).IsFile(f.mapFile) {
		return fmt.Errorf("%s leads to other files by now: %w", f.path, ErrOtherContent)
	}
	return nil
}

// readMap adds the chunks that the map marks to f.presentChunks. matches tells whether the open data file and map belong to f: they have
// the identity and the size of f. With Options.Version, a map that marks chunks must also have a version. adoptVersion then makes that the
// version of f. readMap fails if the files cannot be read.
func (f *File) readMap() (matches bool, err error) {
	header := make([]byte, headerBytes)
	if _, err := f.mapFile.ReadAt(header, 0); err != nil && err != io.EOF {
		return false, err
	}
	info, err := f.data.Stat()
	if err != nil || string(header) != string(f.mapHeader()) || info.Size() != f.opts.Size {
		return false, err
	}
	anyMarked, err := f.readMarks(0, f.presentChunks.end)
	return err == nil && (!anyMarked || f.adoptVersion()), err // chunks without a version do not count: the system may have stopped before it was on disk
}

// resetFiles empties the data file and the map, and gives them their sizes, so that no chunk is marked. It then writes name and header into
// the map, the header last. If the process is killed before, the header is missing, and Open makes the files anew. The caller has locked
// the header and the data file. resetFiles fails if a file cannot be written.
func (f *File) resetFiles() error {
	f.version.Store(nil)
	err := cmp.Or(f.mapFile.Truncate(0), f.data.Truncate(0), f.data.Truncate(f.opts.Size), f.mapFile.Truncate(f.nameOffset()))
	if err == nil {
		_, err = f.mapFile.WriteAt([]byte(f.opts.Name), f.nameOffset())
	}
	if err == nil {
		_, err = f.mapFile.WriteAt(f.mapHeader(), 0)
	}
	return err
}

// mapHeader returns the header of the map file, which marks the chunks that are present. Its fields, in order, are magic (8 bytes), version
// (4), chunk size (4), file size (8), and SHA-256 of the identity (32). Zeros fill it up to headerBytes. Integers are little-endian.
func (f *File) mapHeader() []byte {
	b := make([]byte, 0, headerBytes)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, ChunkBytes)
	b = binary.LittleEndian.AppendUint64(b, uint64(f.opts.Size))
	id := sha256.Sum256([]byte(f.opts.Identity))
	b = append(b, id[:]...)
	return append(b, make([]byte, headerBytes-len(b))...)
}

// readMarks reads the map's bytes of chunks [lo, hi). anyMarked tells whether the map marks one of them. readMarks adds the marked chunks
// to f.presentChunks, if adoptVersion allows that. It fails if the map cannot be read.
func (f *File) readMarks(lo, hi int64) (anyMarked bool, err error) {
	buf := make([]byte, min(64<<10, hi-lo))
	for ; lo < hi; lo += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), hi-lo)]
		if _, err := f.mapFile.ReadAt(buf, headerBytes+lo); err != nil {
			return anyMarked, err
		}
		if bytes.IndexByte(buf, 1) < 0 {
			continue
		}
		anyMarked = true
		if !f.adoptVersion() {
			continue
		}
		for i, b := range buf {
			if b == 1 {
				f.presentChunks.add(lo + int64(i))
			}
		}
	}
	return anyMarked, nil
}

// Have returns how many bytes of the file are present.
func (f *File) Have() int64 {
	have := f.presentChunks.count() * ChunkBytes
	if last := f.presentChunks.end - 1; last >= 0 && f.presentChunks.has(last) { // the last chunk may be shorter
		have -= f.presentChunks.end*ChunkBytes - f.opts.Size
	}
	return have
}

// ReadAt fills p with the bytes from off on. It first fetches missing chunks into the data file. If the data file takes no more bytes,
// ReadAt reads p from the source instead. It fails for bytes beyond the file's end, if the data file cannot be read, or if the source
// fails. It also fails when ctx ends.
func (f *File) ReadAt(ctx context.Context, p []byte, off int64) error {
	cached, err := f.Fetch(ctx, off, int64(len(p)))
	if err != nil {
		return err
	}
	if !cached {
		return f.CheckFetched(f.opts.Fetch(ctx, p, off))
	}
	_, err = f.data.ReadAt(p, off)
	return err
}

// Has reports whether the n bytes at off are present. It reports false if they are not all in the file.
func (f *File) Has(off, n int64) bool {
	lo, hi, ok := f.chunksOf(off, n)
	from, _ := f.presentChunks.missing(lo, hi, 1)
	return ok && from == hi
}

// chunksOf returns the chunks [lo, hi) that have the n bytes at off. ok is false if the file does not have them all: lo and hi are then 0.
func (f *File) chunksOf(off, n int64) (lo, hi int64, ok bool) {
	switch {
	case off < 0 || n < 0 || off > f.opts.Size || n > f.opts.Size-off:
		return 0, 0, false
	case n == 0:
		return 0, 0, true
	}
	return off / ChunkBytes, chunkCount(off + n), true
}

// Data returns the open data file. The caller must not close it.
func (f *File) Data() *os.File { return f.data }

// Close ends all fetches and closes the files, which stay on disk. It waits until running calls of Options.Fetch have returned. If
// Options.OnFull has panicked in the background, Close panics too. It fails if closing a file does.
func (f *File) Close() (err error) {
	f.endFetches()
	f.fetching.Lock()
	//lint:ignore SA2001 Lock waits for the fetches that run, and later ones fail.
	f.fetching.Unlock()
	defer func() { err = f.closeFiles() }() // also if Wait panics
	f.marking.Wait()
	return nil
}

// closeFiles closes the data file and the map, unless they are nil. It returns the errors of both, joined.
func (f *File) closeFiles() error {
	var errs []error
	for _, file := range []*os.File{f.data, f.mapFile} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// Finish calls check with a reader of all bytes, renames the data file to final, and removes the map. The File may be read as before.
// Finish fails if bytes are missing, if check fails, or if the system does. It fails with ErrOtherContent if the paths of the two files
// lead to other files by now. If only removing the map fails, the data file stays at final. If check fails with layout.ErrChecksum, the
// bytes are not the content that the identity names. Finish then removes both files, and later reads fail with that error.
func (f *File) Finish(final rooted.Path, check func(io.Reader) error) error {
	if f.Have() < f.opts.Size {
		return fmt.Errorf("%s: %d of %d bytes are there", f.path, f.Have(), f.opts.Size)
	}
	switch err := check(io.NewSectionReader(f.data, 0, f.opts.Size)); {
	case errors.Is(err, layout.ErrChecksum):
		f.checksumErr.Store(&err)
		return errors.Join(err, f.Remove())
	case err != nil:
		return err
	}
	if err := f.sync(); err != nil {
		return err
	}
	return f.withHeaderLocked(func() error {
		if err := DataPath(f.path).Rename(final); err != nil {
			return err
		}
		f.finished.Store(true)
		return MapPath(f.path).Remove()
	})
}

// withHeaderLocked locks the map's header against other processes, and calls change, which may rename or remove the two files. If the paths
// of the two lead to other files by now, it fails with ErrOtherContent, and does not call change. It also fails if change does.
func (f *File) withHeaderLocked(change func() error) error {
	f.headerMu.Lock()
	defer f.headerMu.Unlock()
	unlock, err := lockRange(context.Background(), f.mapFile, 0, headerBytes)
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.checkNames(); err != nil {
		return err
	}
	return change()
}

// Finished reports whether Finish has moved the data file away, or Remove was called.
func (f *File) Finished() bool { return f.finished.Load() }

// Remove removes the data file and the map. If the paths of the two lead to other files by now, it leaves these. The open File may be read
// as before. Remove fails if the system does.
func (f *File) Remove() error {
	f.finished.Store(true) // the bytes are never to be moved to a final path
	err := f.withHeaderLocked(func() error { return Remove(f.path) })
	if errors.Is(err, ErrOtherContent) {
		return nil
	}
	return err
}

// Remove removes the map and the data file of the File called path, if they exist. It fails if the system does.
func Remove(path rooted.Path) error {
	return errors.Join(MapPath(path).Remove(), DataPath(path).Remove())
}
