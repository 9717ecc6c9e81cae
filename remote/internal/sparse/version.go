package sparse

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/tensormap/tensormap/mmapio"
)

// maxVersion bounds what is cached of a version: a server may say anything.
const maxVersion = 1 << 10

// Version returns the version of the bytes that are present, or "" if it is unknown or there are none.
func (f *File) Version() string {
	if v := f.version.Load(); v != nil {
		return *v
	}
	return ""
}

// CheckFetched checks a fetch from the source that has ended. It returns fetchErr, the error of the fetch, unless that is nil. Otherwise it
// calls checkVersion with the source's version, and returns the error of that. If the error is mmapio.ErrChanged, CheckFetched also
// invalidates the files: the next Open begins without bytes. Without Options.Version it only returns fetchErr.
func (f *File) CheckFetched(fetchErr error) error {
	if f.opts.Version == nil {
		return fetchErr
	}
	err := fetchErr
	if err == nil {
		err = f.checkVersion(f.opts.Version())
	}
	if !errors.Is(err, mmapio.ErrChanged) {
		return err
	}
	if removeErr := f.Invalidate(); removeErr != nil {
		return fmt.Errorf("%w; the cache has another version, which cannot be removed: %w", err, removeErr)
	}
	return fmt.Errorf("%w; the cache begins anew when it is next opened", err)
}

// checkVersion compares now, the source's version, with the version of f, and returns mmapio.ErrChanged if they differ. If f has no version
// yet, f first gets the version in the map. If the map has none, f gets now. checkVersion then writes now into the map for other processes,
// unless it is empty: no other File uses the bytes of f then. If the map cannot be read or written, f caches nothing more. If f is closed
// before it has a version, checkVersion returns fs.ErrClosed.
func (f *File) checkVersion(now string) error {
	if len(now) > maxVersion || strings.ContainsRune(now, 0) { // the map cannot have it
		now = ""
	}
	f.headerMu.Lock()
	defer f.headerMu.Unlock()
	if f.version.Load() == nil {
		cached, err := f.readOrWriteVersion(now)
		if f.fetchCtx.Err() != nil { // f is closed
			return fs.ErrClosed
		}
		if err != nil {
			f.stopCaching(err)
		}
		f.version.Store(&cached)
	}
	if cached := f.Version(); cached != now {
		return fmt.Errorf("%w: it has version %q now, and had %q", mmapio.ErrChanged, now, cached)
	}
	return nil
}

// readOrWriteVersion returns the version in the map. If the map has none, it writes the version current into the map and returns that. It
// writes nothing if current is "". It locks the map against other processes meanwhile. It fails if the map cannot be read or written, or
// after Close. With an error, cached is the version to assume.
func (f *File) readOrWriteVersion(current string) (cached string, err error) {
	unlock, err := lockRange(f.fetchCtx, f.mapFile, 0, headerBytes)
	if err != nil {
		return current, err
	}
	defer unlock()
	name, cached, err := f.nameAndVersion()
	if err != nil || cached != "" || current == "" {
		return cached, err
	}
	if _, err := f.mapFile.WriteAt([]byte("\x00"+current+"\x00"), f.nameOffset()+int64(len(name))); err != nil {
		return current, err
	}
	_, cached, err = f.nameAndVersion() // where nothing is locked, another process may have been here
	return cached, err
}

// nameOffset returns the offset in the map at which the name begins: behind the header and one byte for each chunk.
func (f *File) nameOffset() int64 { return headerBytes + f.presentChunks.end }

// nameAndVersion returns the name and the version in the map, whose end is NAME 0 VERSION 0. A version without its final 0 is
// incomplete: nameAndVersion returns "" for it. It fails if the map cannot be read.
func (f *File) nameAndVersion() (name, version string, err error) {
	text, err := io.ReadAll(io.NewSectionReader(f.mapFile, f.nameOffset(), maxNameAndVersion))
	fields := strings.Split(string(text), "\x00")
	if len(fields) == 3 && fields[2] == "" {
		version = fields[1]
	}
	return fields[0], version, err
}

// adoptVersion gives f the version in the map, unless f has one already. Fetches of another version fail from then on. mayUseMap is true if
// f then has a version: f may read the chunks that the map marks, and mark its own. Without Options.Version, adoptVersion does nothing and
// returns true, since Options.Identity tells versions apart.
func (f *File) adoptVersion() (mayUseMap bool) {
	if f.opts.Version == nil {
		return true
	}
	if f.version.Load() == nil {
		if _, cached, err := f.nameAndVersion(); err == nil && cached != "" {
			f.version.CompareAndSwap(nil, &cached)
		}
	}
	return f.Version() != ""
}

// Invalidate overwrites the map's header and removes both files: the next Open, in any process, begins without bytes. This File goes
// on reading the bytes that it has. It fails if the map cannot be written or a file cannot be removed.
func (f *File) Invalidate() error {
	if _, err := f.mapFile.WriteAt(make([]byte, len(magic)), 0); err != nil { // for systems that do not remove open files
		return err
	}
	return f.Remove()
}
