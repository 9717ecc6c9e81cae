// Package ascii tells names that are plain from those that need a closer look.
package ascii

import (
	"encoding/binary"
	"unicode/utf8"
)

// Plain reports whether b has neither a NUL byte nor one beyond ASCII, as nearly all names
// have none: then it is valid UTF-8. It looks at eight bytes at a time.
func Plain(b []byte) bool {
	const lows, highs = 0x0101010101010101, 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		// A byte's high bit is set in w, or comes up in w - lows if the byte is 0.
		if w := binary.LittleEndian.Uint64(b); (w|(w-lows))&highs != 0 {
			return false
		}
	}
	for _, c := range b {
		if c == 0 || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
