package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

func TestDryRun(t *testing.T) {
	file, dir := modeltest.Small(t), t.TempDir()
	out := filepath.Join(dir, "out")
	r := tensormap("convert", file, out, "--format", "apr2", "--dtype", "f16", "--dry-run")
	empty(t, dir)
	for _, want := range []string{"would write  " + out, "format       apr2", "tensors      2", "a.weight  F16      2×3  12 B  F32", "b/bias    I16        4   8 B  I16", "metadata     apr_version, model_type, architecture, safetensors, quantization"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	if r.status != exitDone || r.stderr != "left as stored: 1 tensor (I16 without a scale): b/bias\n" {
		t.Errorf("%d, %q", r.status, r.stderr)
	}
	for _, to := range []string{"apr2", "safetensors"} {
		var p struct {
			Path, Format string
			Bytes        int64
			Metadata     map[string]any
			Tensors      []struct {
				Name, DType string
				Shape       []int
				Bytes       uint64
				FromDType   string `json:"from_dtype"`
				FromShape   []int  `json:"from_shape"`
				StoredBytes uint64 `json:"stored_bytes"`
				Reencoded   bool
			}
		}
		text := done(t, "convert", file, out, "--format", to, "--dry-run", "--json")
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		empty(t, dir)
		done(t, "convert", file, out, "--format", to)
		info, err := os.Stat(out)
		if err != nil || info.Size() != p.Bytes || p.Path != out || len(p.Tensors) != 2 || p.Tensors[0].Name != "a.weight" || p.Tensors[0].Bytes != 24 || p.Tensors[0].FromDType != "F32" || p.Tensors[0].Reencoded {
			t.Errorf("%s: %+v, %v", to, p, err)
		}
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
	}
	tensormap("convert", file, file, "--dry-run").failsWith(t, file)
}

// TestConvertFormat: by the name of the new file, or by --format where that says nothing.
func TestConvertFormat(t *testing.T) {
	file := modeltest.Small(t)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"out.apr", nil, "apr2"},
		{"out.apr", []string{"--format", "apr2"}, "apr2"},
		{"out.safetensors", nil, "safetensors"},
		{"OUT.SafeTensors", nil, "safetensors"},
		{"out", []string{"--format", "safetensors"}, "safetensors"},
		{"model.bin", []string{"--format", "APR2"}, "apr2"},
	} {
		out := filepath.Join(t.TempDir(), tt.name)
		done(t, append([]string{"convert", file, out}, tt.args...)...)
		for _, verb := range []string{"merge", "split"} {
			if verb == "split" {
				tt.args = append(tt.args, "--shard-size", "1GB")
			}
			again := filepath.Join(t.TempDir(), tt.name)
			done(t, append([]string{verb, file, again}, tt.args...)...)
			if a, b := inspectedFormat(t, again), inspectedFormat(t, out); a != b {
				t.Errorf("%s: %s, not %s", verb, a, b)
			}
		}
		if text := done(t, "inspect", out, "--json"); !strings.Contains(text, `"format": "`+tt.want+`"`) {
			t.Errorf("%+v: %s", tt, text)
		}
	}
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		args []string
		says string
	}{
		{"out", nil, "out: the name does not say which format to write: apr2 (.apr), gguf (.gguf), safetensors (.safetensors); or give --format apr2|gguf|safetensors\n"},
		{"model.bin", nil, "--format apr2|gguf|safetensors\n"},
		{"", nil, `"": the name does not say`},
		{"out.safetensors", []string{"--format", "apr2"}, "out.safetensors: is a name for safetensors, not for apr2\n"},
		{"out.apr", []string{"--format", "safetensors"}, "out.apr: is a name for apr2, not for safetensors\n"},
		{"out.gguf", []string{"--format", "apr2"}, "out.gguf: is a name for gguf, not for apr2\n"},
		{"out.apr", []string{"--format", "gguf"}, "out.apr: is a name for apr2, not for gguf\n"},
		{"out.apr", []string{"--format", "tsm"}, "must be one of apr2, gguf, safetensors"},
	} {
		for _, verb := range []string{"convert", "merge", "split"} {
			out := tt.name
			if out != "" {
				out = filepath.Join(dir, out)
			}
			args := append([]string{verb, file, out}, tt.args...)
			if verb == "split" {
				args = append(args, "--shard-size", "1GB")
			}
			if r := tensormap(args...); r.status != exitUsage || !strings.Contains(r.stderr, tt.says) {
				t.Errorf("%v: %+v", args, r)
			}
		}
	}
	empty(t, dir)
	for _, args := range [][]string{{"--dtype", "q8_0"}, {"--dtype", "i8"}, {"--compress"}} {
		if r := tensormap(append([]string{"convert", file, "out.safetensors"}, args...)...); r.status != exitUsage {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func inspectedFormat(t *testing.T, path string) string {
	t.Helper()
	var in struct{ Format string }
	if err := json.Unmarshal([]byte(done(t, "inspect", path, "--json")), &in); err != nil {
		t.Fatal(err)
	}
	return in.Format
}

// TestConvertSideFiles: what is beside a SafeTensors file, and only there, is picked up.
func TestConvertSideFiles(t *testing.T) {
	file := modeltest.Small(t)
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
	other := modeltest.Write(t, "other.json", []byte(`{"model_type":"other"}`))
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
	file := modeltest.WriteSafeTensors(t, `{"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]},"b":{"dtype":"C64","shape":[1],"data_offsets":[8,16]},"c":{"dtype":"F4","shape":[2],"data_offsets":[16,17]}}`, make([]byte, 17)...)
	r := tensormap("convert", file, filepath.Join(t.TempDir(), "out.apr"))
	for _, want := range []string{
		"written as U64: 2 tensors (APR2 has no C64, the bits are the same): a, b\n",
		"written as F32: 1 tensor (APR2 has no F4, the values are the same): c\n",
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
