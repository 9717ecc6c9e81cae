package mmapio

import "runtime"

// DirectAlignment is the number of bytes that offset, length and memory of a read must be multiples of, once Direct has
// succeeded.
const DirectAlignment = 4096

// ShowsWrites reports whether a mapping shows what is written to its file meanwhile. Windows promises this of other mappings
// only.
func ShowsWrites() bool {
	switch runtime.GOOS {
	case "linux", "darwin", "freebsd":
		return true
	}
	return false
}

// Anonymous returns a Mapping of n bytes of this process alone, called path, and the memory to write to. They are zeros at
// first. They take memory only where they were written to, on systems that can map.
func Anonymous(path string, n int) (m *Mapping, memory []byte, err error) {
	if n < 0 {
		return nil, nil, pathError("map", path, ErrTooLarge)
	}
	b, free, err := anonymous(n)
	if err != nil {
		return nil, nil, pathError("map", path, err)
	}
	return newMapping(path, uint64(n), &backing{data: b[:len(b):len(b)], close: free}), b, nil
}
