package loader

import "time"

// Stats says what a model costs now and what its cache has done. All sizes are in bytes.
type Stats struct {
	Tensors int  `json:"tensors"` // as Len counts them
	Leases  int  `json:"leases"`  // taken and not released
	Closed  bool `json:"closed"`  // Close was called; leases and running calls may still hold the memory: see Done

	MappedBytes uint64 `json:"mapped_bytes"` // of the address space that files take, shards once they are touched
	// UnmappedBytes is the size of files that are read on demand instead: by Options.NoMap, by a
	// reader of the caller's, or because the system refuses to map them.
	UnmappedBytes uint64 `json:"unmapped_bytes"`
	HeapBytes     uint64 `json:"heap_bytes"` // of cached tensors, copied or expanded

	VerifiedBytes uint64 `json:"verified_bytes"` // hashed because of Options.Trust; a chunk that was fetched twice counts twice
	WrongChunks   uint64 `json:"wrong_chunks"`   // hashed chunks that were not the trusted ones: see IntegrityError
	PrivateBytes  uint64 `json:"private_bytes"`  // of chunks that Options.Private or a remote file has in memory

	FetchedBytes uint64 `json:"fetched_bytes"` // read by a Source: over a network, or by a reader of the caller's
	PresentBytes uint64 `json:"present_bytes"` // of remote files, what this disk had of them when they were opened, by an earlier download

	Hits          uint64        `json:"hits"`           // requests that the cache answered
	Expansions    uint64        `json:"expansions"`     // tensors copied or expanded into the cache
	ExpandedBytes uint64        `json:"expanded_bytes"` // by the expansions, in total
	ExpandedTime  time.Duration `json:"expanded_ns"`    // that the expansions took, in total
	Evictions     uint64        `json:"evictions"`      // entries dropped to keep the budget
}

// Stats reads counters, also while a closed model drains and afterwards: then no file is mapped. It asks the
// kernel nothing: ResidentBytes does.
func (m *Model) Stats() Stats {
	c := m.cache.Counters()
	s := Stats{
		Tensors:       m.Len(),
		Leases:        m.leaseGate.users(),
		Closed:        m.gate.closed(),
		HeapBytes:     uint64(c.Used),
		Hits:          c.Hits,
		Expansions:    c.Fills,
		ExpandedBytes: c.Filled,
		ExpandedTime:  c.Took,
		Evictions:     c.Evictions,
	}
	for i := range m.files {
		n := m.files[i].data.Counts()
		s.FetchedBytes += n.Fetched
		s.PresentBytes += n.Present
		s.VerifiedBytes += n.Hashed
		s.WrongChunks += n.WrongChunks
		s.PrivateBytes += n.Private
	}
	if m.gone() { // no file is mapped any more
		return s
	}
	for i := range m.files {
		f := m.files[i].data
		if !f.InPlace() {
			s.UnmappedBytes += f.Size()
		}
		if f.Mapped() {
			s.MappedBytes += f.Size()
		}
	}
	return s
}

// Resident returns how many of the n bytes at off of a file are in memory now, whoever read them
// there; file is a position in Files. A shard that nobody has touched is mapped for it, which
// reads nothing. The kernel does not tell everybody: see [mmapio.Mapping.Resident]. The error is
// errors.ErrUnsupported if the file is not mapped or the platform cannot tell, and ErrRange if the
// range leaves the file.
func (m *Model) Resident(file int, off, n uint64) (uint64, error) {
	if err := m.enter(); err != nil {
		return 0, err
	}
	defer m.leave()
	f, err := m.fileWithRange(file, off, n)
	if err != nil {
		return 0, err
	}
	count, err := f.data.Resident(off, n)
	return count, f.Wrap(err)
}

// ResidentBytes returns how many bytes of all mapped files are in memory now. It works for a closed model too, as long as a
// lease or a running call holds the model's memory. Afterwards it fails with ErrClosed. It fails with ErrUnsupported if the
// platform cannot tell. It asks the kernel about every page, which takes about a millisecond for ten gigabytes.
func (m *Model) ResidentBytes() (sum uint64, err error) {
	if !m.gate.enterIfUsed() {
		return 0, m.closedError()
	}
	defer m.leave()
	for i := range m.files {
		f := m.files[i]
		if !f.data.Mapped() {
			continue
		}
		n, err := f.data.Resident(0, f.data.Size())
		if err != nil {
			return 0, f.Wrap(err)
		}
		sum += n
	}
	return sum, nil
}
