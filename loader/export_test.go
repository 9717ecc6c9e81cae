package loader

import "github.com/tensormap/tensormap/mmapio"

// What the tests of package loader_test need to see.
const (
	ReadStep = readStep
	CRCChunk = crcChunk
)

// CacheBytes works after Close too.
func CacheBytes(m *Model) int64 { return int64(m.cache.stats().HeapBytes) }

func MappingOf(m *Model) *mmapio.Mapping { return m.files[0].mapping }
