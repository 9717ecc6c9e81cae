package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDryRun(t *testing.T) {
	file, dir := small(t), t.TempDir()
	out := filepath.Join(dir, "out.apr")
	r := tensormap("convert", file, out, "--dtype", "f16", "--dry-run")
	empty(t, dir)
	for _, want := range []string{"would write  " + out, "format       apr2", "tensors      2", "a.weight  F16      2×3  12 B  F32", "b/bias    I16        4   8 B  I16", "metadata     apr_version, model_type, architecture, safetensors, quantization"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if r.status != exitDone || r.stderr != "kept as stored: 1 tensor (I16 without a scale): b/bias\n" {
		t.Errorf("%d, %q", r.status, r.stderr)
	}
	for _, to := range []string{"apr", "safetensors"} {
		var p struct {
			Path, Format string
			Bytes        int64
			Metadata     map[string]any
			Tensors      []struct {
				Name, DType string
				Shape       []uint64
				Bytes       uint64
				FromDType   string   `json:"from_dtype"`
				FromShape   []uint64 `json:"from_shape"`
				StoredBytes uint64   `json:"stored_bytes"`
				Reencoded   bool
			}
		}
		text := done(t, "convert", file, out, "--to", to, "--dry-run", "--json")
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		empty(t, dir)
		done(t, "convert", file, out, "--to", to)
		info, err := os.Stat(out)
		if err != nil || info.Size() != p.Bytes || p.Path != out || len(p.Tensors) != 2 || p.Tensors[0].Name != "a.weight" || p.Tensors[0].Bytes != 24 || p.Tensors[0].FromDType != "F32" || p.Tensors[0].Reencoded {
			t.Errorf("%s: %+v, %v", to, p, err)
		}
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
	}
	if r := tensormap("convert", file, out, "--json"); r.status != exitUsage {
		t.Errorf("%+v", r)
	}
	tensormap("convert", file, file, "--dry-run").failsWith(t, file)
}

// TestConvertTo: by the name of the new file, or by --to.
func TestConvertTo(t *testing.T) {
	file := small(t)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"out.apr", nil, "apr2"},
		{"out", nil, "apr2"},
		{"out.safetensors", nil, "safetensors"},
		{"OUT.SafeTensors", nil, "safetensors"},
		{"out", []string{"--to", "safetensors"}, "safetensors"},
		{"out.safetensors", []string{"--to", "apr"}, "apr2"},
	} {
		out := filepath.Join(t.TempDir(), tt.name)
		done(t, append([]string{"convert", file, out}, tt.args...)...)
		if text := done(t, "inspect", out, "--json"); !strings.Contains(text, `"format": "`+tt.want+`"`) {
			t.Errorf("%+v: %s", tt, text)
		}
	}
	for _, args := range [][]string{{"--dtype", "q8_0"}, {"--dtype", "i8"}, {"--compress"}} {
		if r := tensormap(append([]string{"convert", file, "out.safetensors"}, args...)...); r.status != exitUsage {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestConvertSideFiles: what is beside a SafeTensors file, and only there, is picked up.
func TestConvertSideFiles(t *testing.T) {
	file := small(t)
	dir := filepath.Dir(file)
	config := filepath.Join(dir, "config.json")
	if err := os.WriteFile(config, []byte(`{"model_type":"bert","n":1}`), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.apr")
	model := func(wantStderr string, args ...string) map[string]any {
		t.Helper()
		r := tensormap(append([]string{"convert", args[0], out}, args[1:]...)...)
		if r.status != exitDone || strings.Contains(r.stderr, "metadata from") != (wantStderr != "") || !strings.Contains(r.stderr, wantStderr) {
			t.Fatalf("%v: %+v", args, r)
		}
		return inspected(t, out).Metadata
	}
	if md := model("metadata from "+config, file); md["model_type"] != "bert" {
		t.Errorf("%v", md)
	}
	if md := model("", file, "--no-side-files"); md["model_type"] != "unknown" {
		t.Errorf("%v", md)
	}
	other := write(t, "other.json", []byte(`{"model_type":"other"}`))
	if md := model("", file, "--metadata", other); md["model_type"] != "other" || len(md["architecture"].(map[string]any)) != 0 {
		t.Errorf("%v", md)
	}
	gguf, err := os.ReadFile("../../testdata/gguf/v3.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.gguf"), gguf, 0o666); err != nil {
		t.Fatal(err)
	}
	model("", filepath.Join(dir, "model.gguf"))
	if err := os.WriteFile(config, []byte(`[`), 0o666); err != nil {
		t.Fatal(err)
	}
	tensormap("convert", file, out).failsWith(t, config, "--no-side-files")
}

// TestConvertSays in one line for every reason what has become of tensors.
func TestConvertSays(t *testing.T) {
	file := safetensors(t, `{"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]},"b":{"dtype":"C64","shape":[1],"data_offsets":[8,16]},"c":{"dtype":"F4","shape":[2],"data_offsets":[16,17]}}`, make([]byte, 17)...)
	r := tensormap("convert", file, filepath.Join(t.TempDir(), "out.apr"))
	for _, want := range []string{
		"written as U64: 2 tensors (APR2 has no C64, the bits are the same): a, b\n",
		"written as U8: 1 tensor (APR2 has no F4, the bits are the same): c\n",
	} {
		if r.status != exitDone || !strings.Contains(r.stderr, want) {
			t.Errorf("no %q in %+v", want, r)
		}
	}
	r = tensormap("convert", "../../testdata/april/streaming.april", filepath.Join(t.TempDir(), "out.apr"), "--no-aliases")
	if r.status != exitDone || !strings.Contains(r.stderr, "(part of other tensors)") {
		t.Errorf("%+v", r)
	}
}
