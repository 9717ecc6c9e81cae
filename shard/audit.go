package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// Checksums is empty: a manifest has none over itself. ShardChecksums are over others.
func (m *Manifest) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// ShardChecksum is a checksum over a shard. At is in the manifest.
type ShardChecksum struct {
	Shard int
	layout.Checksum
}

// ShardDigest is the SHA-256 of a whole shard. At is in the manifest.
type ShardDigest struct {
	Shard int
	Field string
	At    uint64
	Want  [sha256.Size]byte
}

// ShardChecksums lists the checksums that the manifest states of its shards. It leaves to Audit
// those that cannot be read, and those that are the same for every shard of that size.
func (m *Manifest) ShardChecksums() (sums []ShardChecksum) {
	for i, at := range m.sumsAt {
		s := &m.Shards[i]
		if want, ok := s.crc32(); ok && !s.hollow() {
			sums = append(sums, ShardChecksum{i, layout.Checksum{Field: "shards.crc32", At: at.crc32, Size: s.covered(), Want: want}})
		}
	}
	return sums
}

// ShardDigests lists the SHA-256s that the manifest states of its shards. It leaves to Audit
// those that cannot be read.
func (m *Manifest) ShardDigests() (sums []ShardDigest) {
	for i, at := range m.sumsAt {
		if want, ok := m.Shards[i].sha256(); ok {
			sums = append(sums, ShardDigest{i, "shards.sha256", at.sha256, want})
		}
	}
	return sums
}

// CheckChecksum compares what shard i, decoded from file, says of its bytes with what the
// manifest says of them. It reads no bytes but those of the shard's own checksum.
func (m *Manifest) CheckChecksum(i int, shard layout.File, file layout.Input) error {
	s := &m.Shards[i]
	want, ok := s.crc32()
	if !ok || s.hollow() {
		return nil
	}
	sums, err := shard.Checksums(file)
	if err != nil {
		return nil // whoever reads all of the shard will say what is wrong
	}
	for _, c := range sums {
		if c.Offset == 0 && c.Size == s.covered() && c.Want != want {
			return m.errorf([]any{"shards", i, "crc32"}, "shards.crc32", layout.ErrChecksum,
				"shard %s says that its bytes have %08x, but should say %08x: it is not the file that the manifest was written for", quote(s.Name), c.Want, want)
		}
	}
	return nil
}

// footerSize is how many bytes at the end of a shard CRC32 leaves out: the footer of APR2.
const footerSize = 16

// covered returns how many bytes CRC32 covers, from the first on.
func (s *Shard) covered() uint64 { return s.Size - min(s.Size, footerSize) }

// crc32 reads 8 lower-case hexadecimal digits, the most significant first.
func (s *Shard) crc32() (crc uint32, ok bool) {
	b, ok := digits(s.CRC32, 4)
	if !ok {
		return 0, false
	}
	return binary.BigEndian.Uint32(b), true
}

// sha256 reads 64 lower-case hexadecimal digits.
func (s *Shard) sha256() (sum [sha256.Size]byte, ok bool) {
	b, ok := digits(s.SHA256, len(sum))
	copy(sum[:], b)
	return sum, ok
}

// digits reads so many bytes of two lower-case hexadecimal digits each.
func digits(text string, bytes int) (b []byte, ok bool) {
	b, err := hex.DecodeString(text)
	return b, err == nil && len(b) == bytes && text == strings.ToLower(text)
}

// crcOfCRC is the CRC32 of any bytes followed by their own CRC32.
const crcOfCRC = 0x2144df1c

// hollow reports whether CRC32 is that of every intact file of the shard's size.
func (s *Shard) hollow() bool {
	crc, ok := s.crc32()
	rest := binary.LittleEndian.AppendUint64([]byte("2RPA"), s.Size)
	return ok && crc == crc32.Update(crcOfCRC, crc32.IEEETable, rest)
}

// Audit lists what is odd with the manifest, and where it does not agree with the shards
// though the model can be read.
func (m *Manifest) Audit(layout.Input) []layout.Finding {
	a := audit{m: m}
	if m.Of == layout.APR2 {
		a.marks()
		a.checksums()
	}
	if m.table != nil {
		a.unmapped()
		a.total()
	}
	return a.findings
}

type audit struct {
	m        *Manifest
	findings []layout.Finding
}

func (a *audit) find(warning bool, path []any, field string, sentinel error, format string, args ...any) {
	err := a.m.errorf(path, field, sentinel, format, args...)
	a.findings = append(a.findings, layout.Finding{FormatError: err, Warning: warning})
}

func (a *audit) marks() {
	if !a.m.flagged {
		a.find(true, []any{"sharded"}, "sharded", layout.ErrInvalid, "is not true")
	}
	if !a.m.versioned {
		a.find(true, nil, "apr_version", layout.ErrInvalid, "the required key is missing")
	}
}

// checksums reports shards whose checksums cannot be checked, one finding for each reason.
func (a *audit) checksums() {
	var none, hollow, bad, badDigest []int
	for i := range a.m.Shards {
		s := &a.m.Shards[i]
		if _, ok := s.crc32(); s.CRC32 == "" {
			none = append(none, i)
		} else if !ok {
			bad = append(bad, i)
		} else if s.hollow() {
			hollow = append(hollow, i)
		}
		if _, ok := s.sha256(); s.SHA256 != "" && !ok {
			badDigest = append(badDigest, i)
		}
	}
	name := func(i int) string { return quote(a.m.Shards[i].Name) }
	crc := func(i int) string { return quote(a.m.Shards[i].CRC32) + " of " + name(i) }
	a.sums(true, none, "crc32", "not there for %s", name)
	a.sums(true, hollow, "crc32", "tells nothing, because every intact file of the same size has it: that of the whole file, not of all bytes but the footer: %s", crc)
	a.sums(false, bad, "crc32", "not 8 lower-case hexadecimal digits: %s", crc)
	a.sums(false, badDigest, "sha256", "not 64 lower-case hexadecimal digits: %s", func(i int) string {
		return quote(a.m.Shards[i].SHA256) + " of " + name(i)
	})
}

// sums reports what is the matter with the value of key in some shards.
func (a *audit) sums(warning bool, shards []int, key, format string, name func(i int) string) {
	if len(shards) > 0 {
		a.find(warning, []any{"shards", shards[0], key}, "shards."+key, layout.ErrInvalid, format, list(len(shards), func(i int) string { return name(shards[i]) }))
	}
}

// unmapped reports tensors that the map does not have.
func (a *audit) unmapped() {
	t := a.m.table
	if len(t.Tensors) == len(a.m.places) {
		return // all of the map are in the table, and no name twice
	}
	mapped := make([]bool, len(t.Tensors))
	for i := range a.m.places {
		mapped[t.find(a.m.name(i))] = true
	}
	var left []int
	for i, ok := range mapped {
		if !ok {
			left = append(left, i)
		}
	}
	a.find(true, []any{a.m.keys.tensors}, a.m.keys.tensors, layout.ErrNotFound, "in a shard, but not in the map: %s", list(len(left), func(i int) string {
		x := &t.Tensors[left[i]]
		return layout.Quote(x.Name) + " of " + quote(a.m.Shards[x.File].Name)
	}))
}

// total compares the sum of all tensors' bytes with what a SafeTensors index says.
func (a *audit) total() {
	if a.m.total == "" {
		return
	}
	sum := uint64(0)
	for i := range a.m.table.Tensors {
		sum += a.m.table.Tensors[i].Raw // of files that exist
	}
	if a.m.total != strconv.FormatUint(sum, 10) {
		a.find(true, []any{"metadata", "total_size"}, "metadata.total_size", layout.ErrInvalid, "%s, but the tensors have %d bytes", a.m.total, sum)
	}
}

// list names the first of n things.
func list(n int, name func(i int) string) string {
	const few = 3
	var names []string
	for i := range min(n, few) {
		names = append(names, name(i))
	}
	if n > few {
		names = append(names, fmt.Sprintf("… (%d in all)", n))
	}
	return strings.Join(names, ", ")
}
