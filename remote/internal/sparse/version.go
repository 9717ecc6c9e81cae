package sparse

import (
	"context"
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

// fetchSameVersion fills p with the source's bytes from off on. It fails if the source does, and with mmapio.ErrChanged if they are of
// another version than the bytes that are present.
func (f *File) fetchSameVersion(ctx context.Context, p []byte, off int64) error {
	return f.CheckFetched(f.opts.Fetch(ctx, p, off))
}

// CheckFetched returns err, with which the source has failed, or nil if it has sent bytes. If err is nil, it compares the source's
// version with that of the bytes that are present, and returns mmapio.ErrChanged if they differ. After ErrChanged, also in err, the
// next Open begins anew.
func (f *File) CheckFetched(err error) error {
	if f.opts.Version == nil {
		return err
	}
	if err == nil {
		err = f.checkVersion(f.opts.Version())
	}
	if errors.Is(err, mmapio.ErrChanged) {
		if dropped := f.Invalidate(); dropped != nil {
			return fmt.Errorf("%w; the cache has another version, which cannot be removed: %w", err, dropped)
		}
		return fmt.Errorf("%w; the cache begins anew when it is next opened", err)
	}
	return err
}

// checkVersion returns mmapio.ErrChanged unless now, the source's version, is that of the bytes that are present. If there are none
// yet, it writes now into the map, for all processes. Bytes without a version are for this File alone.
func (f *File) checkVersion(now string) error {
	if len(now) > maxVersion || strings.ContainsRune(now, 0) { // the map cannot have it
		now = ""
	}
	f.headerMu.Lock()
	defer f.headerMu.Unlock()
	if f.version.Load() == nil {
		cached, err := f.versionInMap(now)
		if f.fetchCtx.Err() != nil {
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

// versionInMap returns the version that the map has, under a lock against other processes. If the map has none, it
// writes now into it first, unless that is "". It fails if the map cannot be read or written.
func (f *File) versionInMap(now string) (cached string, err error) {
	unlock, err := lockRange(f.fetchCtx, f.mapFile, 0, headerBytes)
	if err != nil {
		return now, err
	}
	defer unlock()
	name, cached, err := f.nameAndVersion()
	if err != nil || cached != "" || now == "" {
		return cached, err
	}
	if _, err := f.mapFile.WriteAt([]byte("\x00"+now+"\x00"), headerBytes+f.presentChunks.end+int64(len(name))); err != nil {
		return now, err
	}
	_, cached, err = f.nameAndVersion() // where nothing is locked, another process may have been here
	return cached, err
}

// nameAndVersion returns the name and the version in the map, behind its bytes of chunks: NAME 0 VERSION 0. A version
// that is not complete is "". It fails if the map cannot be read.
func (f *File) nameAndVersion() (name, version string, err error) {
	text, err := io.ReadAll(io.NewSectionReader(f.mapFile, headerBytes+f.presentChunks.end, maxName))
	parts := strings.Split(string(text), "\x00")
	if len(parts) == 3 && parts[2] == "" {
		version = parts[1]
	}
	return parts[0], version, err
}

// trustsMap reports whether f may read the chunks that the map says are present: always if the identity tells the
// version, else only if the map has a version. If f has none yet, it takes the map's, and asks the source for it from
// then on.
func (f *File) trustsMap() bool {
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
