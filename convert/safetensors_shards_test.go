package convert_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// indexFile is an index as Hugging Face's libraries read it.
type indexFile struct {
	Metadata struct {
		TotalSize uint64 `json:"total_size"`
	}
	WeightMap map[string]string `json:"weight_map"`
}

// TestSafeTensorsShards: every tensor is where the index says, no file is too large, and none has
// room for the first tensor of the next.
func TestSafeTensorsShards(t *testing.T) {
	list := []content{counting("scalar", layout.F16)}
	for i := range 40 {
		d := []layout.DType{layout.U8, layout.F32, layout.F64, layout.BF16}[i%4]
		list = append(list, counting(fmt.Sprintf("ä\"%d", i), d, i%7, 9*i%50))
	}
	m := openBytes(t, safeTensors(0, `{"format":"pt","n":"1"}`, list...))
	for _, most := range []uint64{1, 500, 1000, 3000, 3001, 3002, 3003, 8000} {
		path := filepath.Join(t.TempDir(), "out.safetensors")
		r, err := convert.Write(context.Background(), m, path, &convert.Options{ShardBytes: most})
		if err != nil {
			t.Fatal(err)
		}
		if r.Path != path+".index.json" || len(r.Tensors) != len(list) {
			t.Errorf("%d: %+v", most, r)
		}
		sameValues(t, clean(t, r.Path), m)
		indexed(t, r, list, most)
	}
}

// indexed looks at the files that r speaks of without package shard.
func indexed(t *testing.T, r *convert.Plan, list []content, most uint64) {
	t.Helper()
	var index indexFile
	readJSON(t, r.Path, &index)
	raw, bytes := uint64(0), uint64(0)
	for _, c := range list {
		raw += uint64(len(c.data))
	}
	if index.Metadata.TotalSize != raw || len(index.WeightMap) != len(list) {
		t.Errorf("%+v, want %d bytes of %d tensors", index, raw, len(list))
	}
	var alone []string
	at := 0 // in the list
	for i := range r.Shards {
		name := fmt.Sprintf("out-%05d-of-%05d.safetensors", i+1, r.Shards)
		m := open(t, filepath.Join(filepath.Dir(r.Path), name), nil)
		if v, _ := metadata(t, m).Get("format"); v != "pt" {
			t.Errorf("%s has the format %v", name, v)
		}
		for _, c := range list[at : at+m.Len()] {
			if got := index.WeightMap[c.name]; got != name {
				t.Errorf("%s is in %s, not in %s", c.name, got, name)
			}
			tensor(t, m, c.name)
		}
		size := m.Files()[0].Size
		if bytes += size; size > most {
			alone = append(alone, list[at].name)
		}
		if size > most && m.Len() != 1 {
			t.Errorf("%d: %s has %d bytes", most, name, size)
		}
		if at += m.Len(); at < len(list) && size+uint64(len(list[at].data)+100) <= most {
			t.Errorf("%d: %s has %d bytes, and room for %s", most, name, size, list[at].name)
		}
	}
	files := snapshot(t, filepath.Dir(r.Path))
	if len(files) != r.Shards+1 || r.Bytes != bytes+uint64(len(files[filepath.Base(r.Path)])) || !slices.Equal(oversized(r), alone) {
		t.Errorf("%d: %+v of %d files, %d bytes, oversized %q", most, r, len(files), bytes, alone)
	}
}

// TestSafeTensorsShardsMetadata is all there again, whatever it went through; and what files say
// of a framework is where its readers look for it.
func TestSafeTensorsShardsMetadata(t *testing.T) {
	two := []content{counting("a", layout.U8, 64), counting("b", layout.U8, 64)}
	for _, md := range []string{`{}`, `{"vocab":["a","b"],"x":{"y":null}}`, `{"safetensors":{"format":"pt","total_size":128,"n":[1,{"k":true}]},"x":1}`} {
		m := openBytes(t, apr2File(t, parse(t, md), two...))
		path := filepath.Join(t.TempDir(), "out.safetensors")
		r, err := convert.Write(context.Background(), m, path, &convert.Options{ShardBytes: 128})
		if err != nil || r.Shards != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		sharded := open(t, r.Path, nil)
		single, _ := toSafeTensors(t, sharded, nil)
		if strings.Contains(md, "format") {
			if v, _ := metadata(t, single).Get("format"); v != "pt" {
				t.Errorf("format %v in a single file", v)
			}
		}
		want := parse(t, md)
		if own, _ := want.Get("safetensors"); own == nil {
			want.Set("safetensors", parse(t, `{"total_size":128}`)) // which the index says
		}
		direct, _ := toAPR2(t, openBytes(t, apr2File(t, want, two...)), nil)
		for _, from := range []*loader.Model{sharded, single} {
			back, _ := toAPR2(t, from, nil)
			if a, b := deepSorted(t, metadata(t, back)), deepSorted(t, metadata(t, direct)); a != b {
				t.Errorf("%s: back as\n%s, want\n%s", md, a, b)
			}
		}
	}
}

// deepSorted is md as JSON with all keys in order.
func deepSorted(t *testing.T, md layout.Metadata) string {
	t.Helper()
	b, err := json.Marshal(plain(t, md))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSafeTensorsShardsRefuse: nothing is written where readers would not find it, or would lose
// what they have.
func TestSafeTensorsShardsRefuse(t *testing.T) {
	two := safeTensors(0, "{}", counting("a", layout.U8, 64), counting("b", layout.U8, 64))
	for name, says := range map[string]string{
		"out.safetensors/in":                "not a regular file",
		"out-00001-of-00002.safetensors/in": "not a regular file",
		"out.safetensors.index.json/in":     "not a regular file",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, dir)
		_, err := convert.Write(context.Background(), openBytes(t, two), filepath.Join(dir, "out.safetensors"), &convert.Options{ShardBytes: 130})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
		if after := snapshot(t, dir); !maps.Equal(before, after) {
			t.Errorf("%s: %v, was %v", name, after, before)
		}
	}
	for _, opts := range []convert.Options{{ShardBytes: 130}, {}} {
		ctx, cancel := context.WithCancel(context.Background())
		opts.Progress = func(uint64, uint64) { cancel() }
		dir := t.TempDir()
		if _, err := convert.Write(ctx, openBytes(t, two), filepath.Join(dir, "out.safetensors"), &opts); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		onlyFiles(t, dir)
	}
}

// TestSafeTensorsShardsCalled: what the caller says is not written, but it must be what could be.
func TestSafeTensorsShardsCalled(t *testing.T) {
	two := safeTensors(0, "{}", counting("a", layout.U8, 64), counting("b", layout.U8, 64))
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, path + string(filepath.Separator)} {
		_, err := convert.Write(context.Background(), openBytes(t, two), path, &convert.Options{Format: layout.SafeTensors, ShardBytes: 130})
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	onlyFiles(t, path)
	onlyFiles(t, dir, "out")
	loud := filepath.Join(dir, "M.SafeTensors")
	if _, err := convert.Write(context.Background(), openBytes(t, two), loud, &convert.Options{ShardBytes: 130}); err != nil {
		t.Error(err)
	}
	onlyFiles(t, dir, "M-00001-of-00002.safetensors", "M-00002-of-00002.safetensors", "M.safetensors.index.json", "out")
}

// TestSafeTensorsNotDivided: without tensors there is nothing to divide.
func TestSafeTensorsNotDivided(t *testing.T) {
	for _, list := range [][]content{nil, {counting("a", layout.U8, 64)}} {
		_, r := toSafeTensors(t, openBytes(t, safeTensors(0, `{"a":"b"}`, list...)), &convert.Options{ShardBytes: 1 + 1000*uint64(len(list))})
		if r.Shards != 0 || len(oversized(r)) != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestSafeTensorsReplaces: what stands for a model takes the place of what stood for another, be
// it a file or an index, so that every reader finds the same. Old shards stay, and are named.
func TestSafeTensorsReplaces(t *testing.T) {
	dir := t.TempDir()
	path, index := filepath.Join(dir, "out.safetensors"), filepath.Join(dir, "out.safetensors.index.json")
	shardNames := func(n int) (names []string) {
		for i := range n {
			names = append(names, filepath.Join(dir, fmt.Sprintf("out-%05d-of-%05d.safetensors", i+1, n)))
		}
		return names
	}
	all := slices.Concat(shardNames(2), shardNames(3))
	slices.Sort(all)
	model := func(values string) *loader.Model {
		c := counting("a", layout.U8, 64)
		copy(c.data, values)
		return openBytes(t, safeTensors(0, "{}", c, counting("b", layout.U8, 64), counting("c", layout.U8, 64)))
	}
	for i, step := range []struct {
		most    uint64
		lead    string
		removed string
		shards  int
		left    []string
	}{
		{0, path, "", 0, nil},
		{130, index, path, 3, nil},
		{130, index, "", 3, nil},
		{280, index, "", 2, shardNames(3)},
		{0, path, index, 0, all},
		{0, path, "", 0, all},
	} {
		m := model(fmt.Sprint("step ", i))
		r, err := convert.Write(context.Background(), m, path, &convert.Options{ShardBytes: step.most})
		if err != nil || r.Path != step.lead || r.Removed != step.removed || r.Shards != step.shards || !slices.Equal(r.Left, step.left) {
			t.Fatalf("step %d: %+v, %v", i, r, err)
		}
		if other := map[string]string{path: index, index: path}[step.lead]; exists(other) {
			t.Errorf("step %d: %s is there too", i, other)
		}
		sameTensors(t, open(t, dir, nil), m) // by the directory: there is one model in it
	}
	// Into one file, where the index is the source.
	if _, err := convert.Write(context.Background(), model("again"), path, &convert.Options{ShardBytes: 130}); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	_, err := convert.Write(context.Background(), open(t, index, nil), path, nil)
	if err == nil || !strings.Contains(err.Error(), index+": is a file that is being read, and cannot stand beside out.safetensors") {
		t.Errorf("%v", err)
	}
	if after := snapshot(t, dir); !maps.Equal(before, after) {
		t.Errorf("%v, was %v", after, before)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
