package crcmath

import (
	"hash/crc32"
	"io"
)

// Sum is of bytes that are written one after the other: how many, and their checksum.
type Sum struct {
	Size  uint64
	CRC32 uint32 // IEEE
}

// piece is what is summed and written at a time: small enough that the second reads from
// the cache what the first has fetched.
const piece = 256 << 10

// Write writes b to w and adds it to s. Where it fails, Size counts also what was written
// of b before; CRC32 is of no use then.
func (s *Sum) Write(w io.Writer, b []byte) error {
	for len(b) > 0 {
		p := b[:min(len(b), piece)]
		s.CRC32 = crc32.Update(s.CRC32, crc32.IEEETable, p)
		n, err := w.Write(p)
		s.Size += uint64(n)
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
