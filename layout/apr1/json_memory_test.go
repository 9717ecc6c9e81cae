package apr1

import (
	"hash/crc32"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// TestJSONIndexMemory has an index of entries without anything in them, each of which would be
// a tensor: refused, and no memory is made ready for them.
func TestJSONIndexMemory(t *testing.T) {
	for _, entry := range []string{"{}", "[]"} {
		const n = 100_000
		index := "[" + strings.Repeat(entry+",", n-1) + entry + "]"
		b := le.AppendUint32([]byte("APR1"), 2)
		b = le.AppendUint32(append(b, "{}"...), n)
		b = append(le.AppendUint32(b, uint32(len(index))), index...)
		b = le.AppendUint32(b, crc32.ChecksumIEEE(b))
		var err error
		taken := testmode.Allocated(func() { _, err = Decode(layout.Bytes(b), nil) })
		if limit := uint64(4 * len(b)); err == nil || taken > limit {
			t.Errorf("%s: %d bytes taken for %d, more than %d; %v", entry, taken, len(b), limit, err)
		}
	}
}
