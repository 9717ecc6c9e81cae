package shard

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// Checksums is empty: a manifest has none over itself. ShardChecksums are over others.
func (m *Manifest) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// ShardChecksum is a checksum over the whole of a shard. At is in the manifest.
type ShardChecksum struct {
	Shard int
	layout.Checksum
}

// ShardChecksums lists the checksums that the manifest states of its shards, sizes being
// those that the shards have. What cannot be read as one is left to Audit.
func (m *Manifest) ShardChecksums(in layout.Input) ([]ShardChecksum, error) {
	if m.Of != layout.APR2 {
		return nil, nil
	}
	doc, err := layout.Region(in, layout.Manifest, 0, "manifest", 0, m.index.Size)
	if err != nil {
		return nil, err
	}
	at := locateEach(doc, "crc32", "shards")
	var sums []ShardChecksum
	for i, s := range m.Shards {
		want, ok := parseCRC32(s.CRC32)
		if !ok || i >= len(at) { // the file may have changed
			continue
		}
		sums = append(sums, ShardChecksum{i, layout.Checksum{Field: "shards.crc32", At: at[i], Size: s.Size, Want: want}})
	}
	return sums, nil
}

// parseCRC32 reads 8 lower-case hexadecimal digits, the most significant first.
func parseCRC32(s string) (crc uint32, ok bool) {
	n, err := strconv.ParseUint(s, 16, 32)
	return uint32(n), err == nil && len(s) == 8 && s == strings.ToLower(s)
}

// Audit lists what is odd with the manifest, and where it does not agree with the shards
// though the model can be read.
func (m *Manifest) Audit(in layout.Input) []layout.Finding {
	a := audit{m: m, in: in}
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
	in       layout.Input
	findings []layout.Finding
}

func (a *audit) find(warning bool, path []any, field string, sentinel error, format string, args ...any) {
	err := a.m.errorf(a.in, path, field, sentinel, format, args...)
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

// checksums reports shards whose checksum cannot be checked: one finding for those without
// one, one for those with something else in its place.
func (a *audit) checksums() {
	var none, bad []int
	for i, s := range a.m.Shards {
		if s.CRC32 == "" {
			none = append(none, i)
		} else if _, ok := parseCRC32(s.CRC32); !ok {
			bad = append(bad, i)
		}
	}
	if len(none) > 0 {
		a.find(true, []any{"shards", none[0]}, "shards.crc32", layout.ErrInvalid, "not there for %s", list(len(none), func(i int) string {
			return quote(a.m.Shards[none[i]].Name)
		}))
	}
	if len(bad) > 0 {
		a.find(false, []any{"shards", bad[0], "crc32"}, "shards.crc32", layout.ErrInvalid, "not 8 lower-case hexadecimal digits: %s", list(len(bad), func(i int) string {
			s := &a.m.Shards[bad[i]]
			return quote(s.CRC32) + " of " + quote(s.Name)
		}))
	}
}

// unmapped reports tensors that the map does not have.
func (a *audit) unmapped() {
	t := a.m.table
	if len(t.Tensors) == len(a.m.places) {
		return // all of the map are in the table, and no name twice
	}
	mapped := make([]bool, len(t.Tensors))
	for _, p := range a.m.places {
		mapped[t.find(p.tensor)] = true
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
