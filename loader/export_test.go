package loader

import "github.com/tensormap/tensormap/mmapio"

// What the tests of package loader_test need to see.
const (
	ReadStep = readStep
	CRCChunk = pieceBytes
)

// CacheBytes works after Close too.
func CacheBytes(m *Model) int64 { return m.cache.Counters().Used }

func MappingOf(m *Model) *mmapio.Mapping { return m.files[0].mapping }

// Pins is how many cache entries a lease holds.
func Pins(l *Lease) int {
	return l.model.cache.Pinned(&l.pins)
}
