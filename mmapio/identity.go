package mmapio

import (
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Identity says which file was opened, and in which state it was. The zero value belongs to
// memory and readers: nothing is known of them.
type Identity struct {
	size     int64
	modified int64 // in nanoseconds since 1970
	// changed is when the inode was last written, by whatever means: its times cannot be set
	// back. It is 0 if the platform does not tell.
	changed       int64
	device, inode uint64
	info          fs.FileInfo // if there are no such numbers; else nil
}

// IdentityOf returns the identity of the file that info is about.
func IdentityOf(info fs.FileInfo) Identity {
	id := Identity{size: info.Size(), modified: info.ModTime().UnixNano()}
	if !id.number(info.Sys()) {
		id.info = info
		os.SameFile(info, info) // has Windows look now which file it is
	}
	return id
}

// Known reports whether there is a file that id is about.
func (id Identity) Known() bool { return id != Identity{} }

// SameFile reports whether both are about one file, in whichever state.
func (id Identity) SameFile(other Identity) bool {
	if id.info != nil && other.info != nil {
		return os.SameFile(id.info, other.info)
	}
	return id.device == other.device && id.inode == other.inode
}

// FileNumber is what a system numbers its files by.
type FileNumber struct{ device, inode uint64 }

// Number returns the number of the file, in whichever state it is. ok is false if the file has none.
func (id Identity) Number() (n FileNumber, ok bool) {
	n = FileNumber{id.device, id.inode}
	return n, n.inode != 0 // some network file systems say 0 of every file
}

// Key returns a text that no other file has, nor this one in another state: see Check. It is "" if the platform does not tell
// enough, or if the file was written less than a second ago: some clocks could not tell another write from that one.
func (id Identity) Key() string {
	if id.inode == 0 || id.changed == 0 || time.Since(timeOfNanos(id.changed)) < time.Second {
		return ""
	}
	return fmt.Sprint(id.device, id.inode, id.size, id.modified, id.changed)
}

// Size returns the size of the file.
func (id Identity) Size() int64 { return id.size }

// Check returns an error that wraps ErrChanged if now is the identity of another file. It does
// the same if the file has been written since id was taken. Size and time of modification must be the same,
// and the inode's time of change if the platform tells it. A change of the file's mode or of
// its links counts too.
func (id Identity) Check(now Identity) error {
	switch {
	case !id.SameFile(now):
		return fmt.Errorf("%w: another one has its name", ErrChanged)
	case id.size != now.size:
		return fmt.Errorf("%w: %d bytes, now %d", ErrChanged, id.size, now.size)
	case id.modified != now.modified:
		return fmt.Errorf("%w: modified %v, now %v", ErrChanged, timeOfNanos(id.modified), timeOfNanos(now.modified))
	case id.changed != now.changed:
		return fmt.Errorf("%w: its inode changed %v, now %v", ErrChanged, timeOfNanos(id.changed), timeOfNanos(now.changed))
	}
	return nil
}

// timeOfNanos returns the time that is ns nanoseconds after the start of 1970.
func timeOfNanos(ns int64) time.Time { return time.Unix(0, ns).UTC() }
