package manifest

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// Checksums returns nothing: a manifest has none over itself. ShardChecksums lists the checksums of shards.
func (m *File) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

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
// checksums that cannot be read, and checksums that are the same for every shard of that size.
func (m *File) ShardChecksums() (sums []ShardChecksum) {
	for i, at := range m.shardOffsets("crc32") {
		s := &m.Shards[i]
		if want, ok := s.crc32(); ok && !s.provesNothing() {
			sums = append(sums, ShardChecksum{i, layout.Checksum{Field: "shards.crc32", At: at, Size: s.coveredBytes(), Want: want}})
		}
	}
	return sums
}

// ShardDigests lists the SHA-256s that the manifest states of its shards. It leaves to Audit
// digests that cannot be read.
func (m *File) ShardDigests() (sums []ShardDigest) {
	for i, at := range m.shardOffsets("sha256") {
		if want, ok := m.Shards[i].sha256(); ok {
			sums = append(sums, ShardDigest{i, "shards.sha256", at, want})
		}
	}
	return sums
}

// shardOffsets returns the offset of the value of key in each entry of the list of shards (APR2). It is 0 for an entry without the key.
func (m *File) shardOffsets(key string) (offsets []uint64) {
	if m.Of != layout.APR2 {
		return nil
	}
	at := jsontext.Locate(m.text, "shards")
	s := jsontext.New(m.text[at:], layout.Manifest, at, "shards", m.lim)
	for s.Open('[', "a list"); s.More(']'); {
		offset := uint64(0)
		for name := range s.Members("an object") {
			if name == key {
				offset = s.Offset()
			}
		}
		offsets = append(offsets, offset)
	}
	return offsets
}

// Audit lists what is odd with the manifest, and where it does not agree with the shards
// though the model can be read.
func (m *File) Audit(layout.Input) []layout.Finding {
	a := audit{List: findings.New(layout.Manifest), m: m}
	if m.Of == layout.APR2 {
		if !m.sharded {
			a.warn([]any{"sharded"}, "sharded", layout.ErrInvalid, "is not true")
		}
		if !m.versioned {
			a.warn(nil, "apr_version", layout.ErrInvalid, "the required key is missing")
		}
		a.reportChecksums()
	}
	if m.find != nil {
		a.reportUnmapped()
		a.compareTotal()
	}
	return a.All()
}

type audit struct {
	findings.List
	m *File
}

// warn adds a warning about the value that path leads to in the manifest.
func (a *audit) warn(path []any, field string, sentinel error, format string, args ...any) {
	a.Add(a.m.errorf(path, field, sentinel, format, args...), findings.Warning)
}

// reportChecksums adds a finding for each reason why checksums of shards cannot be checked. It names the first shards.
func (a *audit) reportChecksums() {
	var none, hollow, bad, badDigest []int
	for i := range a.m.Shards {
		s := &a.m.Shards[i]
		if _, ok := s.crc32(); s.CRC32 == "" {
			none = append(none, i)
		} else if !ok {
			bad = append(bad, i)
		} else if s.provesNothing() {
			hollow = append(hollow, i)
		}
		if _, ok := s.sha256(); s.SHA256 != "" && !ok {
			badDigest = append(badDigest, i)
		}
	}
	name := func(i int) string { return layout.Quote(a.m.Shards[i].Name) }
	crc := func(i int) string { return layout.Quote(a.m.Shards[i].CRC32) + " of " + name(i) }
	a.addFinding(findings.Warning, none, "crc32", "not there for %s", name)
	a.addFinding(findings.Warning, hollow, "crc32", "tells nothing, because every intact file of the same size has it: that of the whole file, not of all bytes but the footer: %s", crc)
	a.addFinding(findings.Failure, bad, "crc32", "not 8 lower-case hexadecimal digits: %s", crc)
	a.addFinding(findings.Failure, badDigest, "sha256", "not 64 lower-case hexadecimal digits: %s", func(i int) string {
		return layout.Quote(a.m.Shards[i].SHA256) + " of " + name(i)
	})
}

// addFinding adds one finding of weight w about the value of key in the shards with the numbers shards. It adds none if shards is empty.
// name returns the text about one shard.
func (a *audit) addFinding(w findings.Weight, shards []int, key, format string, name func(i int) string) {
	if len(shards) > 0 {
		a.Add(a.m.errorf([]any{"shards", shards[0], key}, "shards."+key, layout.ErrInvalid, format, firstNames(len(shards), func(i int) string { return name(shards[i]) })), w)
	}
}

// reportUnmapped adds a finding that names tensors of shards that the manifest's map does not have, if there are any.
func (a *audit) reportUnmapped() {
	list := a.m.shardTensors
	if len(list) == len(a.m.tensors) {
		return // all of the map are in the shards, and no name twice
	}
	mapped := make([]bool, len(list))
	for _, x := range a.m.tensors {
		mapped[a.m.find(x.Tensor)] = true
	}
	var left []int
	for i, ok := range mapped {
		if !ok {
			left = append(left, i)
		}
	}
	key := a.m.mapKey()
	a.warn([]any{key}, key, layout.ErrNotFound, "in a shard, but not in the map: %s", firstNames(len(left), func(i int) string {
		x := &list[left[i]]
		return layout.Quote(x.Name) + " of " + layout.Quote(a.m.Shards[x.File].Name)
	}))
}

// compareTotal adds a finding if total_size of a SafeTensors index is not the sum of all tensors' bytes.
func (a *audit) compareTotal() {
	if a.m.total == "" {
		return
	}
	sum := uint64(0)
	for i := range a.m.shardTensors {
		sum += a.m.shardTensors[i].Raw // of files that exist
	}
	isInteger := !strings.ContainsAny(a.m.total, ".eE")
	stated, err := strconv.ParseFloat(a.m.total, 64) // Python programs write 32.0
	if whole := strconv.FormatUint(sum, 10); a.m.total != whole && (isInteger || err != nil || stated != float64(sum)) {
		a.warn([]any{"metadata", "total_size"}, "metadata.total_size", layout.ErrInvalid, "%s, but the tensors have %d bytes", a.m.total, sum)
	}
}

// firstNames returns the names of the first three of n things, divided by commas, and how many there are if there are more.
func firstNames(n int, name func(i int) string) string {
	const shown = 3
	var names []string
	for i := range min(n, shown) {
		names = append(names, name(i))
	}
	if n > shown {
		names = append(names, fmt.Sprintf("… (%d in all)", n))
	}
	return strings.Join(names, ", ")
}
