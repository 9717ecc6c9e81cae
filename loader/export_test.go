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

// Pins is how many cache entries a lease holds.
func Pins(l *Lease) int {
	l.model.cache.mu.Lock()
	defer l.model.cache.mu.Unlock()
	return len(l.pins)
}
