package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const shardFixtures = "../../testdata/shards/"

// sameDumps compares all tensors of two models, as they are stored and as values.
func sameDumps(t *testing.T, a, b string) {
	t.Helper()
	tensors := inspected(t, a).Tensors
	if n := len(inspected(t, b).Tensors); len(tensors) != n {
		t.Errorf("%s has %d tensors, %s %d", a, len(tensors), b, n)
	}
	for _, x := range tensors {
		for _, as := range []string{"raw", "f32"} {
			p, q := tensormap("dump", a, x.Name, "--as", as), tensormap("dump", b, x.Name, "--as", as)
			if p.status != q.status || p.stdout != q.stdout {
				t.Errorf("%s --as %s: %s and %s differ: %s%s", x.Name, as, a, b, p.stderr, q.stderr)
			}
		}
	}
}

// fileNames are those in the directory of path.
func fileNames(t *testing.T, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestSplitAndMerge goes from one file, or from the shards of every format, to shards, to
// other shards, and back.
func TestSplitAndMerge(t *testing.T) {
	for source, want := range map[string][]string{
		shardFixtures + "apr2/single.apr":                          {"a-00001-of-00003.apr", "a-00002-of-00003.apr", "a-00003-of-00003.apr", "a.apr"},
		shardFixtures + "apr2/model.apr":                           nil,
		shardFixtures + "safetensors/model.safetensors.index.json": nil,
		shardFixtures + "gguf/model-00002-of-00004.gguf":           nil,
		"../../testdata/apr2/compressed.apr":                       nil,
	} {
		a, b, one := filepath.Join(t.TempDir(), "a.apr"), filepath.Join(t.TempDir(), "b.apr"), filepath.Join(t.TempDir(), "one.apr")
		r := tensormap("split", source, a, "--shard-size", "2.5KB")
		if r.status != exitDone || r.stdout != "" || !strings.HasPrefix(r.stderr, a+": wrote ") || !strings.Contains(r.stderr, " shards, ") {
			t.Fatalf("%s: %+v", source, r)
		}
		if got := fileNames(t, a); want != nil && !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
		if r := tensormap("split", a, b, "--shard-size", "1kib"); r.status != exitDone || !strings.Contains(r.stderr, " shards, ") {
			t.Fatalf("%s: %+v", source, r)
		}
		if r := tensormap("merge", b, one); r.status != exitDone || strings.Contains(r.stderr, "shard") || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%s: %+v", source, r)
		}
		for _, path := range []string{a, b, one} {
			if got := done(t, "verify", path); !strings.Contains(got, ": ok: ") || strings.Contains(got, "warning") {
				t.Error(got)
			}
			sameDumps(t, source, path)
		}
		if got := fileNames(t, one); !slices.Equal(got, []string{"one.apr"}) {
			t.Errorf("%q", got)
		}
	}
}

// TestPartIsNoModel: one shard is not taken for the model without a word.
func TestPartIsNoModel(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.apr")
	for _, part := range []string{"safetensors/model-00002-of-00004.safetensors", "apr2/model-00002-of-00004.apr"} {
		part = shardFixtures + part
		tensormap("merge", part, out).failsWith(t, part, "is one shard of a model")
		for _, args := range [][]string{{"convert", part, out}, {"split", part, out, "--shard-size", "1GB"}} {
			if r := tensormap(args...); r.status != exitDone || !strings.Contains(r.stderr, part+" is one shard of a model") {
				t.Errorf("%v: %+v", args, r)
			}
		}
	}
}

func TestConvertShards(t *testing.T) {
	source := "../../testdata/safetensors/minilm-slice.safetensors"
	out, one := filepath.Join(t.TempDir(), "m.apr"), filepath.Join(t.TempDir(), "m.apr")
	r := tensormap("convert", source, out, "--dtype", "i8", "--shard-size", "1000B")
	if r.status != exitDone || !strings.Contains(r.stderr, "wrote 6 tensors in ") ||
		!strings.Contains(r.stderr, "\nlarger than --shard-size, with a shard of its own each: ") {
		t.Errorf("%+v", r)
	}
	done(t, "convert", source, one, "--dtype", "i8")
	sameDumps(t, out, one)
	done(t, "verify", out)
	r = tensormap("convert", source, one, "--shard-size", "2GB")
	if r.status != exitDone || !strings.Contains(r.stderr, "\nnot divided: one file is not larger than --shard-size\n") || len(fileNames(t, one)) != 1 {
		t.Errorf("%+v", r)
	}
}

// TestSafeTensorsShards: to files that Hugging Face's libraries read, and back.
func TestSafeTensorsShards(t *testing.T) {
	source := "../../testdata/safetensors/minilm-slice.safetensors"
	for _, verb := range []string{"convert", "split"} {
		out, one := filepath.Join(t.TempDir(), "m.safetensors"), filepath.Join(t.TempDir(), "m.safetensors")
		index := out + ".index.json"
		r := tensormap(verb, source, out, "--shard-size", "100KB")
		if r.status != exitDone || !strings.HasPrefix(r.stderr, index+": wrote 6 tensors in 3 shards, ") {
			t.Fatalf("%s: %+v", verb, r)
		}
		if got := fileNames(t, out); !slices.Equal(got, []string{"m-00001-of-00003.safetensors", "m-00002-of-00003.safetensors", "m-00003-of-00003.safetensors", "m.safetensors.index.json"}) {
			t.Errorf("%s: %q", verb, got)
		}
		done(t, "verify", index)
		done(t, "merge", index, one)
		done(t, "diff", source, one)
		// What stood for the old model goes; shards stay, and are named.
		r = tensormap(verb, source, one, "--shard-size", "100KB")
		if r.status != exitDone || !strings.Contains(r.stderr, "\nremoved "+one+", which stood for the model") || strings.Contains(r.stderr, "left in place") {
			t.Errorf("%s: %+v", verb, r)
		}
		r = tensormap("convert", source, one)
		first := filepath.Join(filepath.Dir(one), "m-00001-of-00003.safetensors")
		if r.status != exitDone || !strings.Contains(r.stderr, "\nremoved "+one+".index.json, which stood for the model") ||
			!strings.Contains(r.stderr, "\nleft in place, though not part of this model: 3 files, such as "+first+"\n") {
			t.Errorf("%s: %+v", verb, r)
		}
		done(t, "diff", source, filepath.Dir(one))
	}
}

// TestShardOutputs: no file of the model that is read is replaced, nor half a model written.
func TestShardOutputs(t *testing.T) {
	source := shardFixtures + "apr2/single.apr"
	out := filepath.Join(t.TempDir(), "a.apr")
	done(t, "split", source, out, "--shard-size", "1KB")
	before := fileNames(t, out)
	tensormap("split", out, out, "--shard-size", "1KB").failsWith(t, out+": is the file that is being read")
	other := filepath.Join(filepath.Dir(out), "b.apr")
	shard := filepath.Join(filepath.Dir(out), strings.Replace(before[1], "a-", "b-", 1))
	if err := os.Link(filepath.Join(filepath.Dir(out), before[1]), shard); err != nil {
		t.Skip(err)
	}
	tensormap("split", out, other, "--shard-size", "1KB").failsWith(t, shard+": is a file that is being read")
	tensormap("split", source, filepath.Join(out, "no.apr"), "--shard-size", "1KB").failsWith(t, ": not a directory")
	if got := fileNames(t, out); len(got) != len(before)+1 {
		t.Errorf("%q, before %q", got, before)
	}
}

func TestSplitUsage(t *testing.T) {
	for args, says := range map[string]string{
		"split a":                                 "missing OUT",
		"split a b":                               "missing --shard-size",
		"split a b --shard-size 0":                `must be a size, such as 2GB or 500MiB`,
		"split a b --shard-size -1GB":             "must be a size",
		"split a b --shard-size many":             "must be a size",
		"split a b --shard-size 99999999999999EB": "must be a size",
		"convert a b --shard-size 0.1":            "must be a size",
		"convert a b --shard-size 5":              "has no unit, as 5MB and 5GB have; bytes are 5B",
		"split a b --shard-size 999999":           "has no unit",
		"merge a":                                 "missing OUT",
		"merge a b --shard-size 2GB":              "unknown flag",
	} {
		if r := tensormap(strings.Fields(args)...); r.status != exitUsage || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: %+v", args, r)
		}
	}
	for _, verb := range []string{"split", "merge"} {
		if a, b := done(t, verb, "--help"), done(t, "help", verb); a != b || !strings.Contains(a, "tensormap "+verb) {
			t.Errorf("help %s:\n%s\n%s", verb, b, a)
		}
	}
	if out := done(t, "__complete", "split", "a", "b", "--shard-size", ""); !strings.HasPrefix(out, ":4") {
		t.Errorf("completion: %q", out)
	}
}

func TestByteSize(t *testing.T) {
	for text, want := range map[string]uint64{"1B": 1, "1000000": 1e6, "2GB": 2e9, "2gb": 2e9, "2 GiB": 2 << 30, "1.5MB": 1.5e6, "500KiB": 500 << 10, "4G": 4e9, " 24 gb ": 24e9} {
		var b byteSize
		if err := b.Set(text); err != nil || b.bytes != want {
			t.Errorf("%s: %d, %v, want %d", text, b.bytes, err, want)
		}
	}
	if err := new(byteSize).Set("1"); err == nil {
		t.Error("1 without a unit is taken")
	}
}
