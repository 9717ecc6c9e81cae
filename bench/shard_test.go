package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// shardedSafeTensors is the path of the index of a model of the given tensors, all zeros, in
// so many files.
func shardedSafeTensors(b testing.TB, tensors []layout.Tensor, shards int) string {
	b.Helper()
	dir := b.TempDir()
	var weights bytes.Buffer
	comma := `{"weight_map":{`
	for i := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, shards)
		part := tensors[i*len(tensors)/shards : (i+1)*len(tensors)/shards]
		if err := os.Rename(sparseSafeTensors(b, part), filepath.Join(dir, name)); err != nil {
			b.Fatal(err)
		}
		for _, t := range part {
			fmt.Fprintf(&weights, "%s%q:%q", comma, t.Name, name)
			comma = ","
		}
	}
	weights.WriteString("}}")
	path := filepath.Join(dir, "model.safetensors.index.json")
	if err := os.WriteFile(path, weights.Bytes(), 0o666); err != nil {
		b.Fatal(err)
	}
	return path
}

// shardedAPR2 is the same as an APR2 manifest. Checksums are those in the footers, and wrong.
func shardedAPR2(b testing.TB, tensors []layout.Tensor, shards int) string {
	b.Helper()
	dir := b.TempDir()
	var list, places []string
	for i := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.apr", i+1, shards)
		part := tensors[i*len(tensors)/shards : (i+1)*len(tensors)/shards]
		path := filepath.Join(dir, name)
		if err := os.Rename(sparseAPR2(b, part), path); err != nil {
			b.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, fmt.Sprintf(`{"file":%q,"size":%d,"crc32":"00000000"}`, name, info.Size()))
		for _, t := range part {
			places = append(places, fmt.Sprintf("%q:%d", t.Name, i))
		}
	}
	path := filepath.Join(dir, "model.apr")
	text := fmt.Sprintf(`{"apr_version":"2.0.0","sharded":true,"shard_count":%d,"shards":[%s],"tensor_shard_map":{%s}}`,
		shards, strings.Join(list, ","), strings.Join(places, ","))
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkOpenSharded opens and closes a model of several files, and of one for comparison.
func BenchmarkOpenSharded(b *testing.B) {
	for _, f := range []struct {
		name   string
		single func(testing.TB, []layout.Tensor) string
		make   func(testing.TB, []layout.Tensor, int) string
	}{
		{"apr2", sparseAPR2, shardedAPR2},
		{"safetensors", sparseSafeTensors, shardedSafeTensors},
	} {
		tensors := modelTensors(2000, GB)
		run := func(shards int, path string) {
			b.Run(fmt.Sprintf("format=%s/tensors=2000/shards=%d", f.name, shards), func(b *testing.B) {
				b.ReportAllocs()
				openings(b, path)
			})
		}
		run(0, f.single(b, tensors))
		for _, shards := range []int{1, 4, 64, 1000} {
			run(shards, f.make(b, tensors, shards))
		}
	}
}

// BenchmarkShardBytes asks for the bytes of a tensor of a sharded model and of a model in one
// file: once a shard is mapped there is no difference.
func BenchmarkShardBytes(b *testing.B) {
	tensors := modelTensors(2000, MB)
	for _, kind := range []struct{ name, path string }{
		{"single", sparseAPR2(b, tensors)},
		{"sharded", shardedAPR2(b, tensors, 4)},
	} {
		b.Run("model="+kind.name, func(b *testing.B) {
			m := open(b, kind.path)
			x, err := m.Tensor(string(tensors[1500].Name))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.Bytes(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFirstTouch opens a model of four files and touches one tensor: what mapping a shard
// costs is the difference to opening alone.
func BenchmarkFirstTouch(b *testing.B) {
	tensors := modelTensors(2000, GB)
	path := shardedAPR2(b, tensors, 4)
	b.ReportAllocs()
	for b.Loop() {
		m, err := loader.Open(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		x, err := m.Tensor(string(tensors[1500].Name))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := x.Bytes(); err != nil {
			b.Fatal(err)
		}
		m.Close()
	}
}
