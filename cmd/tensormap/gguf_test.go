package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
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

// TestConvertByteOrder writes big-endian GGUF, whole and split, and reads it back.
func TestConvertByteOrder(t *testing.T) {
	source := "../../testdata/gguf/llama.gguf"
	dir := t.TempDir()
	big, little, shards := filepath.Join(dir, "big.gguf"), filepath.Join(dir, "little.gguf"), filepath.Join(dir, "s.gguf")
	done(t, "convert", source, big, "--byte-order", "big")
	b, err := os.ReadFile(big)
	if err != nil || string(b[:8]) != "GGUF\x00\x00\x00\x03" {
		t.Fatalf("%v, % x", err, b[:min(8, len(b))])
	}
	done(t, "convert", source, shards, "--byte-order", "big", "--shard-size", "1KB")
	for _, from := range []string{big, onlyMatch(t, dir, "s-00001-of-*")} {
		done(t, "verify", from)
		sameDumps(t, source, from)
		done(t, "convert", from, little, "--byte-order", "little")
		if out := done(t, "diff", source, little, "--metadata"); !strings.Contains(out, "identical; 0 differences in metadata") {
			t.Error(out)
		}
	}
	for _, args := range [][]string{{little, "--byte-order", "middle"}, {filepath.Join(dir, "m.apr"), "--byte-order", "big"}} {
		if r := tensormap(append([]string{"convert", source}, args...)...); r.status != exitUsage {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func onlyMatch(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) != 1 {
		t.Fatalf("%s: %q, %v", pattern, names, err)
	}
	return names[0]
}

// TestConvertRecipes: types by recipe and by glob are told before they are written.
func TestConvertRecipes(t *testing.T) {
	source := "../../testdata/safetensors/minilm-slice.safetensors"
	out := filepath.Join(t.TempDir(), "m.gguf")
	r := tensormap("convert", source, out, "--dtype", "q4_k_m", "--type", "*word_embeddings*=q8_0", "--type", "*Norm*=q8_0", "--type", "output*=q8_0", "--dry-run")
	if r.status != exitDone || !strings.Contains(r.stdout, "Q8_0") || strings.Count(r.stderr, "matches no tensor") != 1 || !strings.Contains(r.stderr, "warning: --type output* matches no tensor; case counts\n") || strings.Contains(r.stderr, "rows no multiple") {
		t.Errorf("%+v", r)
	}
	r = tensormap("convert", source, out, "--dtype", "q4_k_m", "--dry-run")
	if r.status != exitDone || !strings.Contains(r.stderr, "written as Q8_0: 1 tensor (rows no multiple of 256, as Q6_K wants)") {
		t.Errorf("%+v", r)
	}
	r = tensormap("convert", source, out, "--dtype", "q4_k_m", "--dry-run", "--json")
	for _, says := range []string{`"reason":"a norm"`, `"reencoded":true,"reason":"rows no multiple of 256, as Q6_K wants"`} {
		if !strings.Contains(r.stdout, says) {
			t.Errorf("no %s in %s", says, r.stdout)
		}
	}
	done(t, "convert", source, out, "--dtype", "q4_k_m")
	if md := inspected(t, out).Metadata; md["general.file_type"] != 15.0 {
		t.Errorf("%v", md)
	}
	done(t, "verify", out)
	tensormap("convert", source, out, "--dtype", "q4_k", "--imatrix", "../../convert/testdata/imatrix.gguf").failsWith(t, "none of its 2 names is a tensor of the model")
	tensormap("convert", source, out, "--dtype", "q4_k", "--imatrix", source).failsWith(t, "unknown format for an importance matrix, which is GGUF")
	imatrix := filepath.Join(filepath.Dir(out), "imatrix.gguf")
	b, err := os.ReadFile("../../convert/testdata/imatrix.gguf")
	if err = errors.Join(err, os.WriteFile(imatrix, b, 0o666)); err != nil {
		t.Fatal(err)
	}
	tensormap("convert", source, imatrix, "--dtype", "q4_k", "--imatrix", imatrix).failsWith(t, "is the file that is being read")
	for args, says := range map[string]string{
		"--type *=q8_0":            "need it",
		"--imatrix x":              "need it",
		"--dtype q8_0 --type *=i9": "must be GLOB=TYPE",
		"--dtype q8_0 --type q8_0": "must be GLOB=TYPE",
		"--dtype q9_k":             "must be one of",
	} {
		if r := tensormap(append([]string{"convert", source, out}, strings.Fields(args)...)...); r.status != exitUsage || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: %+v", args, r)
		}
	}
}
