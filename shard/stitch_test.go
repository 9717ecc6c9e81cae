package shard_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/shard"
)

// index is that of a file with tensors of one byte.
func index(t testing.TB, f layout.Format, names ...string) *layout.Index {
	t.Helper()
	b := layout.NewBuilder(f, uint64(len(names)), uint64(len(names)), "offset", (*layout.Limits)(nil).WithDefaults())
	for i, name := range names {
		x := b.Next()
		x.Name, x.DType, x.Shape, x.Offset, x.Stored = []byte(name), layout.U8, []int{1}, uint64(i), 1
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

func parts(t testing.TB, f layout.Format, names ...[]string) (list []*layout.Index) {
	for _, names := range names {
		list = append(list, index(t, f, names...))
	}
	return list
}

// stitch decodes a manifest and stitches what its shards hold.
func stitch(t testing.TB, doc layout.Bytes, lim *layout.Limits, names ...[]string) (*manifest.File, *shard.Table, error) {
	t.Helper()
	m := modeltest.DecodeManifest(t, string(doc))
	list := parts(t, m.Of, names...)
	table, err := shard.Stitch(m, list, lim)
	for i, p := range list {
		for at, name := range names[i] {
			if err == nil && (p.Find(name) != at || &p.Tensors[at] != &table.Tensors[shard.Find(table, name)]) {
				t.Errorf("tensor %s of part %d is found at %d", name, i, p.Find(name))
			}
		}
		if err == nil && p.Find("nothing") != -1 {
			t.Error("nothing is found")
		}
	}
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
			if at := shard.Find(table, string(x.Name)); at != i {
				t.Errorf("%s is found at %d, not %d", x.Name, at, i)
			}
		}
		if shard.Find(table, "nothing") != -1 {
			t.Error("nothing is found")
		}
	}
}

// TestStitchMany: the map's own table of names serves, in any order, and what is wrong is told.
func TestStitchMany(t *testing.T) {
	const n = 100
	names := make([][]string, 2)
	var places []manifest.Place
	for i := range n {
		name := fmt.Sprintf("tensor %d", i)
		names[i*2/n] = append(names[i*2/n], name)
		places = append(places, manifest.Place{Tensor: name, Shard: i * 2 / n})
	}
	list := []manifest.Shard{{Name: "a", Size: 1}, {Name: "b", Size: 2}}
	try := func(places []manifest.Place, names ...[]string) (*shard.Table, error) {
		doc := modeltest.EncodeManifest(t, list, places, nil)
		_, table, err := stitch(t, layout.Bytes(doc), nil, names...)
		return table, err
	}
	mixed := slices.Clone(places)
	slices.SortFunc(mixed, func(a, b manifest.Place) int { return strings.Compare(a.Tensor, b.Tensor) })
	backwards := slices.Clone(places)
	slices.Reverse(backwards)
	for what, places := range map[string][]manifest.Place{"in order": places, "by name": mixed, "backwards": backwards, "one left out": mixed[1:]} {
		table, err := try(places, names...)
		if err != nil || len(table.Tensors) != n {
			t.Fatal(what, err)
		}
		for i, x := range table.Tensors {
			if want := fmt.Sprintf("tensor %d", i); string(x.Name) != want || shard.Find(table, want) != i || x.File != uint32(i*2/n) {
				t.Errorf("%s: %s of shard %d is found at %d, not %d", what, x.Name, x.File, shard.Find(table, want), i)
			}
		}
		if shard.Find(table, "nothing") != -1 {
			t.Errorf("%s: nothing is found", what)
		}
	}
	moved := slices.Clone(mixed)
	moved[7].Shard ^= 1
	if _, err := try(moved, names...); !errors.Is(err, layout.ErrInvalid) {
		t.Error("in another shard:", err)
	}
	if _, err := try(places, names[0], append(slices.Clone(names[1][1:]), "tensor 0")); !errors.Is(err, layout.ErrDuplicate) {
		t.Error("twice, and another not at all:", err)
	}
	if _, err := try(places, names[0], append(slices.Clone(names[1][1:]), "other")); !errors.Is(err, layout.ErrNotFound) {
		t.Error("another in its place:", err)
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
			doc, at := modeltest.Marked(`{` + twoShards + `,` + tt.doc + `}`)
			_, table, err := stitch(t, doc, &layout.Limits{Tensors: 3}, tt.names...)
			if table != nil {
				t.Error("a table and an error")
			}
			for _, says := range tt.says {
				modeltest.CheckManifestError(t, err, at, "tensor_shard_map", tt.want, says)
			}
		})
	}
	doc, at := modeltest.Marked(`{"weight_map":{"x":"a","y":¶"b","z":"b"}}`)
	m := modeltest.DecodeManifest(t, string(doc))
	list := parts(t, layout.SafeTensors, []string{"x"}, []string{"y"})
	_, err := shard.Stitch(m, list, nil)
	modeltest.CheckManifestError(t, err, at+8, "weight_map", layout.ErrNotFound, `"z"`)
	list[1] = index(t, layout.APR2, "y", "z")
	_, err = shard.Stitch(m, list, nil)
	modeltest.CheckManifestError(t, err, at, "weight_map", layout.ErrInvalid, `"b" is of format apr2, not safetensors`)
	modeltest.CheckManifestError(t, m.UnusableError(1, layout.ErrClosed), at, "weight_map", layout.ErrClosed, `"b"`)
	if err := m.CheckSize(1, 5); err != nil {
		t.Errorf("an index knows no sizes: %v", err)
	}
}

// TestManyShards stitches and audits a large model. What takes the square of its size does not end
// before the timeout of tests.
func TestManyShards(t *testing.T) {
	if testmode.Brief() {
		t.Skip("200,000 tensors")
	}
	const tensors, shards = 200_000, 1000
	var list []manifest.Shard
	var places []manifest.Place
	for i := range shards {
		list = append(list, manifest.Shard{Name: fmt.Sprint(i), Size: 1000, CRC32: "00000000"})
	}
	names := make([][]string, shards)
	for i := range tensors {
		at := i * shards / tensors
		names[at] = append(names[at], fmt.Sprintf("model.layers.%d.weight", i))
		places = append(places, manifest.Place{Tensor: names[at][len(names[at])-1], Shard: at})
	}
	doc := modeltest.EncodeManifest(t, list, places, nil)
	m := modeltest.DecodeManifest(t, string(doc))
	names[500] = append(names[500], "one more")
	table, err := shard.Stitch(m, parts(t, layout.APR2, names...), nil)
	if err != nil || len(table.Tensors) != tensors+1 {
		t.Fatal(err)
	}
	if sums := m.ShardChecksums(); len(sums) != shards {
		t.Errorf("%d checksums", len(sums))
	}
	if found := m.Audit(layout.Bytes(doc)); len(found) != 1 { // one more
		t.Errorf("%v", found)
	}
}

const twoShards = `"shard_count":2,"shards":[{"file":"a","size":1},{"file":"b","size":2}]`
