package modeltest

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
)

// Digests returns the digests of a file with these bytes, in chunks of chunk bytes, as the standard library computes them.
func Digests(b []byte, chunk int) *layout.Digests {
	d := &layout.Digests{End: uint64(len(b)), Chunk: uint64(chunk), Granularity: layout.ByChunk}
	for c := range slices.Chunk(b, chunk) {
		sum := sha256.Sum256(c)
		d.Sums = append(d.Sums, sum[:]...)
	}
	return d
}

// Marked returns a document without its character ¶, and the offset of that, or 0 without one.
func Marked(s string) (doc layout.Bytes, at uint64) {
	before, after, ok := strings.Cut(s, "¶")
	if !ok {
		return layout.Bytes(s), 0
	}
	return layout.Bytes(before + after), uint64(len(before))
}

// DecodeManifest decodes a manifest that has to be right.
func DecodeManifest(t testing.TB, doc string) *manifest.File {
	t.Helper()
	m, err := manifest.Decode(layout.Bytes(doc), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// EncodeManifest returns an APR2 manifest.
func EncodeManifest(t testing.TB, shards []manifest.Shard, places []manifest.Place, metadata layout.Metadata) []byte {
	t.Helper()
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	if err := cmp.Or(manifest.WriteAPR2(w, shards, slices.Values(places), metadata), w.Flush()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// CheckManifestError fails the test unless err is a FormatError of a manifest at offset at, of this field, that wraps
// want. Its text is one line that contains says.
func CheckManifestError(t *testing.T, err error, at uint64, field string, want error, says string) {
	t.Helper()
	fe, ok := errors.AsType[*layout.FormatError](err)
	if !ok || fe.Format != layout.Manifest || fe.Field != field || fe.Offset != at || !errors.Is(err, want) ||
		!strings.Contains(err.Error(), says) || strings.ContainsAny(err.Error(), "\n\x00") {
		t.Errorf("%q; want offset %d, %s, %q, %v", err, at, field, says, want)
	}
}
