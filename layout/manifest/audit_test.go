package manifest_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
)

// tensors are those of shards by their names, of one byte each, as CheckTensors takes them.
func tensors(shards ...[]string) ([]layout.Tensor, func(string) int) {
	var list []layout.Tensor
	at := make(map[string]int)
	for i, names := range shards {
		for _, name := range names {
			at[name] = len(list)
			list = append(list, layout.Tensor{Name: []byte(name), Raw: 1, File: uint32(i)})
		}
	}
	return list, func(name string) int {
		if i, ok := at[name]; ok {
			return i
		}
		return -1
	}
}

// checked decodes a manifest whose shards hold tensors of these names.
func checked(t testing.TB, doc layout.Bytes, names ...[]string) *manifest.File {
	t.Helper()
	m := modeltest.DecodeManifest(t, string(doc))
	if err := m.CheckTensors(tensors(names...)); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCheckSize(t *testing.T) {
	doc, at := modeltest.Marked(`{"shard_count":2,"shards":[{"file":"a","size":1},{"file":"b","size":  ¶2}],"tensor_shard_map":{}}`)
	m := modeltest.DecodeManifest(t, string(doc))
	if err := m.CheckSize(1, 2); err != nil {
		t.Error(err)
	}
	modeltest.CheckManifestError(t, m.CheckSize(1, 3), at, "shards.size", layout.ErrInvalid, `"b" has 3 bytes, but should have 2`)
}

func TestAudit(t *testing.T) {
	const good = `"apr_version":"2.0.0","sharded":true,`
	crc := func(a, b string) string {
		return `"shard_count":2,"shards":[{"file":"a","size":1` + a + `},{"file":"b","size":2` + b + `}],`
	}
	const right = `,"crc32":"cbf43926"`
	const all = `"tensor_shard_map":{"x":0,"y":1}`
	const digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"
	tests := []struct {
		name, doc, field string
		fails            bool
		says             string
	}{
		{"good", good + crc(right, right) + all, "", false, ""},
		{"not flagged", `"apr_version":"2.0.0",` + crc(right, right) + all, "sharded", false, "not true"},
		{"flagged false", `"apr_version":"2.0.0","sharded":¶false,` + crc(right, right) + all, "sharded", false, "not true"},
		{"no version", `"sharded":true,` + crc(right, right) + all, "apr_version", false, "missing"},
		{"unmapped", good + crc(right, right) + `"tensor_shard_map":¶{"x":0}`, "tensor_shard_map", false, `not in the map: "y" of "b"`},
		// 06a3115a is the CRC32 of anything, that number, "2RPA" and a size of 2, by Python's zlib.
		{"crc of the whole file", good + crc(right, `,"crc32":¶"06a3115a"`) + all, "shards.crc32", false, `every intact file of the same size has it: that of the whole file, not of all bytes but the footer: "06a3115a" of "b"`},
		{"crc of the whole file of another size", good + crc(`,"crc32":"06a3115a"`, right) + all, "", false, ""},
		{"digest", good + crc(right+`,"sha256":"`+digest+`"`, right) + all, "", false, ""},
		{"digest too short", good + crc(right, right+`,"sha256":¶"`+digest[2:]+`"`) + all, "shards.sha256", true, `not 64 lower-case hexadecimal digits: "`},
		{"digest in upper case", good + crc(right+`,"sha256":¶"`+strings.ToUpper(digest)+`"`, right) + all, "shards.sha256", true, `AD" of "a"`},
		{"digest of nothing", good + crc(right+`,"sha256":""`, right) + all, "", false, ""},
		{"crc of words", good + crc(right, `,"crc32":¶"..."`) + all, "shards.crc32", true, `"..." of "b"`},
		{"crc too short", good + crc(`,"crc32":¶"cbf4392"`, right) + all, "shards.crc32", true, `"cbf4392" of "a"`},
		{"crc in upper case", good + crc(`,"crc32":¶"CBF43926"`, right) + all, "shards.crc32", true, `"CBF43926" of "a"`},
		{"crc with a prefix", good + crc(`,"crc32":¶"0xbf4392"`, right) + all, "shards.crc32", true, `"0xbf4392" of "a"`},
		{"crc with a sign", good + crc(`,"crc32":¶"+bf43926"`, right) + all, "shards.crc32", true, `"+bf43926" of "a"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc, at := modeltest.Marked("{" + tt.doc + "}")
			m := checked(t, doc, []string{"x"}, []string{"y"})
			found := m.Audit(doc)
			if tt.field == "" {
				if len(found) > 0 {
					t.Errorf("%v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Warning == tt.fails {
				t.Fatalf("%v", found)
			}
			sentinel := layout.ErrInvalid
			if tt.name == "unmapped" {
				sentinel = layout.ErrNotFound
			}
			modeltest.CheckManifestError(t, found[0].FormatError, at, tt.field, sentinel, tt.says)
		})
	}
}

// TestAuditSumsUp: a thousand shards without a checksum are one finding.
func TestAuditSumsUp(t *testing.T) {
	doc := layout.Bytes(`{"apr_version":"2.0.0","sharded":true,` + strings.ReplaceAll(twoShards, `,"crc32":"cbf43926"`, "") + `,"tensor_shard_map":{}}`)
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	m := checked(t, doc, names, []string{"x"})
	found := m.Audit(doc)
	if len(found) != 2 || !strings.Contains(found[0].Reason, `"a", "b"`) || !strings.Contains(found[1].Reason, `"0" of "a", "1" of "a", "2" of "a", … (1001 in all)`) {
		t.Errorf("%v", found)
	}
}

func TestAuditTotalSize(t *testing.T) {
	for total, want := range map[string]bool{`2`: false, `¶3`: true, `2.0`: false, `0.2e1`: false, `¶2.5`: true, `¶3.0`: true, `¶1e999`: true, `"2"`: false, `¶-1`: true} {
		doc, at := modeltest.Marked(`{"metadata":{"total_size":` + total + `},"weight_map":{"x":"a","y":"a"}}`)
		m := checked(t, doc, []string{"x", "y"})
		found := m.Audit(doc)
		if want != (len(found) == 1) {
			t.Errorf("%s: %v", total, found)
			continue
		}
		if want {
			modeltest.CheckManifestError(t, found[0].FormatError, at, "metadata.total_size", layout.ErrInvalid, "2 bytes")
		}
	}
}

func TestShardChecksums(t *testing.T) {
	doc, at := modeltest.Marked(`{"shards" : [{"crc32":"no","file":"a","size":1}, {"file":"b","crc32" : ¶"cbf43926","size":20},{"file":"c","size":3}],
		"shard_count":3,"tensor_shard_map":{}}`)
	m := modeltest.DecodeManifest(t, string(doc))
	sums := m.ShardChecksums()
	want := []manifest.ShardChecksum{{Shard: 1, Checksum: layout.Checksum{Field: "shards.crc32", At: at, Size: 4, Want: 0xcbf43926}}}
	if !slices.Equal(sums, want) {
		t.Errorf("%+v; want %+v", sums, want)
	}
	doc, at = modeltest.Marked(`{"shards":[{"file":"a","size":1,"crc32":"882c16b9","sha256":"x"},{"file":"b","sha256" : ¶"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","size":2}],
		"shard_count":2,"tensor_shard_map":{}}`)
	m = modeltest.DecodeManifest(t, string(doc))
	digests := m.ShardDigests()
	if !slices.Equal(digests, []manifest.ShardDigest{{Shard: 1, Field: "shards.sha256", At: at, Want: sha256.Sum256([]byte("abc"))}}) {
		t.Errorf("%+v", digests)
	}
	if sums := m.ShardChecksums(); sums != nil { // that of any file of size 1 tells nothing
		t.Errorf("%+v", sums)
	}
	if own, err := m.Checksums(doc); own != nil || err != nil {
		t.Errorf("%v, %v", own, err)
	}
	if sums := modeltest.DecodeManifest(t, `{"weight_map":{"x":"a"}}`).ShardChecksums(); sums != nil {
		t.Errorf("%v", sums)
	}
}

// TestDeepManifest: what stands behind a deep value is found, if the limits allow the depth.
func TestDeepManifest(t *testing.T) {
	const depth = 2000
	doc := `{"x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) +
		`,"shards":[{"file":"a.apr","size":100,"crc32":"deadbeef"}],"shard_count":1,"tensor_shard_map":{"a":0},"metadata":{"k":1}}`
	m, err := manifest.Decode(layout.Bytes(doc), &layout.Limits{Depth: 2 * depth})
	if err != nil {
		t.Fatal(err)
	}
	if md, err := m.Metadata(nil); err != nil || len(md) != 1 || md[0].Key != "k" {
		t.Errorf("metadata %v, %v", md, err)
	}
	if sums := m.ShardChecksums(); len(sums) != 1 || sums[0].Want != 0xdeadbeef {
		t.Errorf("checksums %v", sums)
	}
}
