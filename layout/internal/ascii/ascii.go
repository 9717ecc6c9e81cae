// Package ascii tells names that are plain from those that need a closer look.
package ascii

import (
	"encoding/binary"
	"unicode/utf8"
)

// Plain reports whether b has neither a NUL byte nor one beyond ASCII. Nearly all names are
// plain, and a plain one is valid UTF-8. Plain looks at eight bytes at a time. The last eight
// may overlap those before them.
func Plain(b []byte) bool {
	if len(b) < 8 {
		return plainBytes(b)
	}
	last := binary.LittleEndian.Uint64(b[len(b)-8:])
	for ; len(b) > 8; b = b[8:] {
		if !plainWord(binary.LittleEndian.Uint64(b)) {
			return false
		}
	}
	return plainWord(last)
}

// plainWord looks at eight bytes. A byte's high bit is set in w, or comes up in w - lows if
// the byte is 0.
func plainWord(w uint64) bool {
	const lows, highs = 0x0101010101010101, 0x8080808080808080
	return (w|(w-lows))&highs == 0
}

// plainBytes does what Plain does, byte by byte.
func plainBytes(b []byte) bool {
	for _, c := range b {
		if c == 0 || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
