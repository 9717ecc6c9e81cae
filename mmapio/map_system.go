//go:build unix || windows

package mmapio

import (
	"cmp"
	"os"
)

// canMap says that Map and MapFile map on this platform, as a rule.
const canMap = true

// Map maps a file. Its descriptor is closed again before Map returns. The system may refuse to map the file, for want of address space
// or because its file system cannot. It is then read on demand, as by OpenReader. As long as the file is mapped, Windows lets nobody
// truncate it below the mapping, and may let nobody remove or replace it. It can be renamed.
func Map(path string) (*Mapping, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return MapFile(f)
}

// MapFile maps the whole of an open file, wherever its position is, and leaves
// both alone. On Unix and Windows f may be closed afterwards. If the platform does not
// map, f is read on demand and must stay open until Close. A file that the system
// refuses to map is read by a descriptor of the Mapping's own.
func MapFile(f *os.File) (*Mapping, error) {
	m, err := FromFile(f)
	if err != nil {
		return nil, err
	}
	b, err := mapFile(f, m.path, int(m.size))
	if err != nil {
		own, failed := duplicate(f)
		if failed != nil { // perhaps f is not open for reading, which mapping has said
			return nil, pathError("map", m.path, err)
		}
		b = &backing{r: own, close: own.Close}
	}
	m.standOn(b)
	return m, nil
}

// duplicate returns f, which has a byte to be read, with a descriptor of its own.
func duplicate(f *os.File) (own *os.File, err error) {
	err = control(f, func(fd uintptr) error {
		fd, err := duplicateDescriptor(fd)
		if err == nil {
			own = os.NewFile(fd, f.Name())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := own.ReadAt(make([]byte, 1), 0); err != nil {
		own.Close()
		return nil, err
	}
	return own, nil
}

// control runs work with f's descriptor. Unlike Fd, it does not change the file's mode, and
// holds off a concurrent Close.
func control(f *os.File, work func(fd uintptr) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	closed := conn.Control(func(fd uintptr) { err = work(fd) })
	return cmp.Or(closed, err)
}

// mapPages maps size bytes of the file that fd is open for. Tests have it fail.
var mapPages = mapReadOnly

// mapFile maps f, which has size bytes and is called path. It fails if the system refuses.
func mapFile(f *os.File, path string, size int) (*backing, error) {
	if size == 0 { // which no system maps
		return &backing{data: []byte{}, close: closeNothing}, nil
	}
	var data []byte
	b := &backing{mapped: true, close: func() error {
		mappings.Delete(address(data)) // first: the addresses may be another mapping's the moment they are free
		return unmap(data)
	}}
	err := control(f, func(fd uintptr) (err error) {
		data, err = mapPages(fd, size)
		b.data, b.tellsResidency = data, tellsResidency(int(fd))
		return err
	})
	if err != nil {
		return nil, err
	}
	mappings.Store(address(data), extent{uintptr(pageCeil(uint64(len(data)))), path})
	return b, nil
}
