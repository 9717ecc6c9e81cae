package loader

import (
	"errors"
)

// Stats says what a model costs now and what its cache has done. All sizes are in bytes.
type Stats struct {
	Tensors     int
	MappedBytes uint64 // of the address space that files take, shards once they are touched
	// UnmappedBytes are those of files that are read on demand instead: by Options.NoMap, by a
	// reader of the caller's, or because the system refuses to map them.
	UnmappedBytes uint64
	ResidentBytes uint64 // of MappedBytes in memory now, for whatever reason; 0 if the platform cannot tell
	HeapBytes     uint64 // of cached tensors, copied or expanded

	Hits          uint64 // requests that the cache answered
	Expansions    uint64 // tensors copied or expanded into the cache
	ExpandedBytes uint64 // by these, in total
	Evictions     uint64 // entries dropped to keep the budget
}

// Stats measures. It asks the kernel about every page of the mapping, so its cost grows
// with the file's size: about a millisecond for ten gigabytes.
func (m *Model) Stats() (Stats, error) {
	if !m.gate.enter() {
		return Stats{}, m.closedError()
	}
	defer m.leave()
	c := m.cache.Counters()
	s := Stats{
		Tensors:       len(m.tensors),
		HeapBytes:     uint64(c.Used),
		Hits:          c.Hits,
		Expansions:    c.Fills,
		ExpandedBytes: c.Filled,
		Evictions:     c.Evictions,
	}
	for i := range m.files {
		f := &m.files[i]
		if f.access() != inPlace {
			s.UnmappedBytes += f.mapping.Size()
		}
		if !f.mapping.Mapped() || f.mapping.Pending() {
			continue
		}
		s.MappedBytes += f.mapping.Size()
		n, err := f.mapping.Resident(0, f.mapping.Size())
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return Stats{}, &fileError{f.path, err}
		}
		s.ResidentBytes += n
	}
	return s, nil
}
