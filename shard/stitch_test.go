package shard_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/shard"
)

// index is that of a file with tensors of one byte.
func index(t testing.TB, f layout.Format, names ...string) *layout.Index {
	t.Helper()
	b, err := layout.NewBuilder(f, uint64(len(names)), uint64(len(names)), "offset", (*layout.Limits)(nil).WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		x := b.Next()
		x.Name, x.DType, x.Shape, x.Offset, x.Stored = []byte(name), layout.U8, []uint64{1}, uint64(i), 1
		if err := b.Add(0); err != nil {
			t.Fatal(err)
		}
	}
	ix, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

func parts(t testing.TB, f layout.Format, names ...[]string) (list []shard.Part) {
	for i, names := range names {
		list = append(list, shard.Part{Path: fmt.Sprint("file ", i), Index: index(t, f, names...)})
	}
	return list
}

// stitch decodes a manifest and stitches what its shards hold.
func stitch(t testing.TB, doc layout.Bytes, lim *layout.Limits, names ...[]string) (*shard.Manifest, *shard.Table, error) {
	t.Helper()
	m := decode(t, string(doc))
	table, err := m.Stitch(parts(t, m.Of, names...), lim)
	return m, table, err
}

func TestStitch(t *testing.T) {
	for _, doc := range []string{
		`{` + twoShards + `,"tensor_shard_map":{"z":1,"y":0,"x":1,"w":0}}`,
		`{"weight_map":{"z":"b","y":"a","x":"b","w":"a"}}`,
	} {
		_, table, err := stitch(t, layout.Bytes(doc), nil, []string{"y", "w"}, []string{"x", "z"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range table.Tensors {
			got = append(got, fmt.Sprint(string(x.Name), x.File, x.Offset))
		}
		if want := []string{"y0 0", "w0 1", "x1 0", "z1 1"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		for i, x := range table.Tensors {
			if at := find(table, string(x.Name)); at != i {
				t.Errorf("%s is found at %d, not %d", x.Name, at, i)
			}
		}
		if find(table, "nothing") != -1 {
			t.Error("nothing is found")
		}
	}
}

func find(t *shard.Table, name string) int {
	for p := t.Names.Probe(layout.HashName(name)); ; {
		i, ok := p.Next()
		if !ok {
			return -1
		}
		if string(t.Tensors[i].Name) == name {
			return i
		}
	}
}

func TestStitchErrors(t *testing.T) {
	tests := []struct {
		name, doc string
		names     [][]string
		want      error
		says      []string
	}{
		{"absent", `"tensor_shard_map":{"x":0,"y":¶1}`, [][]string{{"x"}, {}}, layout.ErrNotFound, []string{`"y"`, `"b"`}},
		{"in none of two", `"tensor_shard_map":{"x":0,"n":¶0}`, [][]string{{"x"}, {"y"}}, layout.ErrNotFound, []string{`"n"`, `"a"`}},
		{"elsewhere", `"tensor_shard_map":{"y":¶0}`, [][]string{{"x"}, {"y"}}, layout.ErrInvalid, []string{`"y"`, `"a"`, `"b"`}},
		{"in both", `"tensor_shard_map":{"y":0,"x":¶1}`, [][]string{{"x", "y"}, {"x"}}, layout.ErrDuplicate, []string{`"x"`, `"a"`, `"b"`}},
		{"in both, in no map", `"tensor_shard_map":¶{"y":0}`, [][]string{{"x", "y"}, {"x"}}, layout.ErrDuplicate, []string{`"x"`, `"a"`, `"b"`}},
		{"too many", `"tensor_shard_map":¶{}`, [][]string{{"1", "2"}, {"3", "4"}}, layout.ErrLimit, []string{"4 tensors", "more than 3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc, at := marked(`{` + twoShards + `,` + tt.doc + `}`)
			_, table, err := stitch(t, doc, &layout.Limits{Tensors: 3}, tt.names...)
			if table != nil {
				t.Error("a table and an error")
			}
			for _, says := range tt.says {
				checkError(t, err, at, "tensor_shard_map", tt.want, says)
			}
		})
	}
	doc, at := marked(`{"weight_map":{"x":"a","y":¶"b","z":"b"}}`)
	m := decode(t, string(doc))
	list := parts(t, layout.SafeTensors, []string{"x"}, []string{"y"})
	_, err := m.Stitch(list, nil)
	checkError(t, err, at+8, "weight_map", layout.ErrNotFound, `"z"`)
	list[1].Index = index(t, layout.APR2, "y", "z")
	_, err = m.Stitch(list, nil)
	checkError(t, err, at, "weight_map", layout.ErrInvalid, `"b" is of format apr2, not safetensors`)
	checkError(t, m.Unusable(1, layout.ErrClosed), at, "weight_map", layout.ErrClosed, `"b"`)
	if err := m.CheckSize(1, 5); err != nil {
		t.Errorf("an index knows no sizes: %v", err)
	}
}

func TestCheckSize(t *testing.T) {
	doc, at := marked(`{"shard_count":2,"shards":[{"file":"a","size":1},{"file":"b","size":  ¶2}],"tensor_shard_map":{}}`)
	m := decode(t, string(doc))
	if err := m.CheckSize(1, 2); err != nil {
		t.Error(err)
	}
	checkError(t, m.CheckSize(1, 3), at, "shards.size", layout.ErrInvalid, `"b" has 3 bytes, but should have 2`)
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
			doc, at := marked("{" + tt.doc + "}")
			m, _, err := stitch(t, doc, nil, []string{"x"}, []string{"y"})
			if err != nil {
				t.Fatal(err)
			}
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
			checkError(t, found[0].FormatError, at, tt.field, sentinel, tt.says)
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
	m, _, err := stitch(t, doc, nil, names, []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	found := m.Audit(doc)
	if len(found) != 2 || !strings.Contains(found[0].Reason, `"a", "b"`) || !strings.Contains(found[1].Reason, `"0" of "a", "1" of "a", "2" of "a", … (1001 in all)`) {
		t.Errorf("%v", found)
	}
}

func TestAuditTotalSize(t *testing.T) {
	for total, want := range map[string]bool{`2`: false, `¶3`: true, `¶2.0`: true, `"2"`: false, `¶-1`: true} {
		doc, at := marked(`{"metadata":{"total_size":` + total + `},"weight_map":{"x":"a","y":"a"}}`)
		m, _, err := stitch(t, doc, nil, []string{"x", "y"})
		if err != nil {
			t.Fatal(err)
		}
		found := m.Audit(doc)
		if want != (len(found) == 1) {
			t.Errorf("%s: %v", total, found)
			continue
		}
		if want {
			checkError(t, found[0].FormatError, at, "metadata.total_size", layout.ErrInvalid, "2 bytes")
		}
	}
}

func TestShardChecksums(t *testing.T) {
	doc, at := marked(`{"shards" : [{"crc32":"no","file":"a","size":1}, {"file":"b","crc32" : ¶"cbf43926","size":20},{"file":"c","size":3}],
		"shard_count":3,"tensor_shard_map":{}}`)
	m := decode(t, string(doc))
	sums := m.ShardChecksums()
	want := []shard.ShardChecksum{{Shard: 1, Checksum: layout.Checksum{Field: "shards.crc32", At: at, Size: 4, Want: 0xcbf43926}}}
	if !slices.Equal(sums, want) {
		t.Errorf("%+v; want %+v", sums, want)
	}
	doc, at = marked(`{"shards":[{"file":"a","size":1,"crc32":"882c16b9","sha256":"x"},{"file":"b","sha256" : ¶"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","size":2}],
		"shard_count":2,"tensor_shard_map":{}}`)
	m = decode(t, string(doc))
	digests := m.ShardDigests()
	if !slices.Equal(digests, []shard.ShardDigest{{Shard: 1, Field: "shards.sha256", At: at, Want: sha256.Sum256([]byte("abc"))}}) {
		t.Errorf("%+v", digests)
	}
	if sums := m.ShardChecksums(); sums != nil { // that of any file of size 1 tells nothing
		t.Errorf("%+v", sums)
	}
	if own, err := m.Checksums(doc); own != nil || err != nil {
		t.Errorf("%v, %v", own, err)
	}
	if sums := decode(t, `{"weight_map":{"x":"a"}}`).ShardChecksums(); sums != nil {
		t.Errorf("%v", sums)
	}
}

// TestManyShards stitches and audits a large model in about the time that its size asks for.
func TestManyShards(t *testing.T) {
	const tensors, shards = 200_000, 1000
	doc, _ := manyTensors(tensors, shards)
	m := decode(t, string(doc))
	names := make([][]string, shards)
	for i := range tensors {
		at := i * shards / tensors
		names[at] = append(names[at], fmt.Sprintf("model.layers.%d.weight", i))
	}
	names[500] = append(names[500], "one more")
	list := parts(t, layout.APR2, names...)
	start := time.Now()
	table, err := m.Stitch(list, nil)
	if err != nil || len(table.Tensors) != tensors+1 {
		t.Fatal(err)
	}
	sums := m.ShardChecksums()
	if len(sums) != shards {
		t.Errorf("%d checksums", len(sums))
	}
	if found := m.Audit(doc); len(found) != 3 { // not flagged, no version, one more
		t.Errorf("%v", found)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took) // quadratic would be hours
	}
}
