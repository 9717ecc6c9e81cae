package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/modeltest"
)

// TestConvertGGUF goes from GGUF to shards, to one file, to other types, with keys from the command line.
func TestConvertGGUF(t *testing.T) {
	source := "../../testdata/gguf/llama.gguf"
	dir := t.TempDir()
	shards, one, q8 := filepath.Join(dir, "s", "m.gguf"), filepath.Join(dir, "one.gguf"), filepath.Join(dir, "q8.gguf")
	if err := os.Mkdir(filepath.Dir(shards), 0o777); err != nil {
		t.Fatal(err)
	}
	done(t, "split", source, shards, "--shard-size", "1KB")
	names := fileNames(t, shards)
	if len(names) < 2 || !strings.HasPrefix(names[0], "m-00001-of-000") || slices.Contains(names, "m.gguf") {
		t.Fatalf("%q", names)
	}
	done(t, "merge", filepath.Join(dir, "s", names[1]), one)
	if out := done(t, "diff", source, one, "--metadata"); !strings.Contains(out, "identical; 0 differences in metadata") {
		t.Error(out)
	}
	done(t, "convert", one, q8, "--dtype", "q8_0", "--metadata", "general.name=Other", "--metadata", "x=u8:3")
	in := inspected(t, q8)
	if md := in.Metadata; md["general.name"] != "Other" || md["x"] != 3.0 || md["general.file_type"] != 7.0 {
		t.Errorf("%v", in.Metadata)
	}
	sameDumps(t, source, one)
	if r := tensormap("convert", source, q8, "--dtype", "i8"); r.status != exitUsage || !strings.Contains(r.stderr, "GGUF has no scales of integers") {
		t.Errorf("%+v", r)
	}
	if r := tensormap("convert", source, q8, "--compress"); r.status != exitUsage || !strings.Contains(r.stderr, "no compression") {
		t.Errorf("%+v", r)
	}
	if r := tensormap("convert", source, q8, "--metadata", "=3"); r.status != exitUsage || !strings.Contains(r.stderr, "must be a file or KEY=VALUE") {
		t.Errorf("%+v", r)
	}
	if out := done(t, "convert", source, filepath.Join(dir, "no.gguf"), "--dtype", "q4_0", "--dry-run"); !strings.Contains(out, "format       gguf") {
		t.Error(out)
	}
	apr := filepath.Join(dir, "a.apr")
	done(t, "convert", modeltest.Small(t), apr, "--metadata", "hidden_size=12", "--metadata", "model_type=bert")
	if in := inspected(t, apr); in.Metadata["model_type"] != "bert" || in.Metadata["architecture"].(map[string]any)["hidden_size"] != 12.0 {
		t.Errorf("%v", in.Metadata)
	}
}
