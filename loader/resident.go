package loader

// Resident returns how many of the n bytes at off of a file are in memory now, whoever brought them
// there; file is a position in Files. A shard that nobody has touched is mapped for it, which
// reads nothing. The kernel does not tell everybody: see [mmapio.Mapping.Resident]. The error is
// errors.ErrUnsupported if the file is not mapped or the platform cannot tell, and ErrRange if the
// range leaves the file.
func (m *Model) Resident(file int, off, n uint64) (uint64, error) {
	if err := m.enter(); err != nil {
		return 0, err
	}
	defer m.leave()
	f, err := m.fileAt(file, off, n)
	if err != nil {
		return 0, err
	}
	count, err := f.mapping.Resident(off, n)
	return count, f.Wrap(err)
}

// ResidentBytes counts the bytes in memory of all files that are mapped now. It asks the kernel about
// every page: about a millisecond for ten gigabytes. The error is ErrUnsupported if the platform
// cannot tell.
func (m *Model) ResidentBytes() (sum uint64, err error) {
	if err := m.enter(); err != nil {
		return 0, err
	}
	defer m.leave()
	for i := range m.files {
		f := &m.files[i]
		if !f.mapping.Mapped() || f.mapping.Pending() {
			continue
		}
		n, err := f.mapping.Resident(0, f.mapping.Size())
		if err != nil {
			return 0, f.Wrap(err)
		}
		sum += n
	}
	return sum, nil
}
