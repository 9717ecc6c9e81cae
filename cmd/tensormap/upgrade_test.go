package main

import (
	"encoding/base64"
	"encoding/json"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestConvertFixtures: what other programs say of the values in every fixture is true of the
// files that are made of it.
func TestConvertFixtures(t *testing.T) {
	if testmode.Brief() {
		t.Skip("thousands of runs of dump, one after the other")
	}
	dir := t.TempDir()
	values := 0
	for path, want := range describedFixtures(t) {
		if want.Error != nil {
			continue
		}
		for _, out := range []string{filepath.Join(dir, "out.apr"), filepath.Join(dir, "out.safetensors")} {
			verb := "convert"
			if want.Format == "apr1" && filepath.Ext(out) == ".apr" {
				verb = "upgrade"
			}
			if r := tensormap(verb, path, out); r.status != exitDone {
				t.Errorf("%s %s: %+v", verb, path, r)
				continue
			}
			for i := range want.Tensors {
				values += checkValues(t, path, out, &want.Tensors[i])
			}
		}
	}
	if values < 1000 {
		t.Errorf("only %d tensors", values)
	}
}

func checkValues(t *testing.T, path, out string, want *describedTensor) int {
	if want.F32Hex == nil && want.F32SHA256 == nil {
		return 0
	}
	if want.DType == "F8_E8M0" && filepath.Ext(out) == ".apr" {
		return 0 // APR2 has no id for it: its bytes are U8 there, and the metadata say so
	}
	r := tensormap("dump", out, want.Name)
	switch d := want.dtype(); {
	case d == layout.F8_E8M0 && filepath.Ext(out) == ".apr": // its bits, as U8
	case (d == layout.F8_E4M3 || d == layout.F8_E5M2) && len(want.Shape) > 1:
		r.failsWith(t, want.Name, d.String()+" without a scale")
	case r.status != exitDone:
		t.Errorf("%s: %s: %s", path, want.Name, r.stderr)
	case want.F32Hex != nil:
		sameValues(t, want, r.stdout)
	case sha256Hex(r.stdout) != *want.F32SHA256:
		t.Errorf("%s: %s: %s: other values", path, out, want.Name)
	}
	return 1
}

// TestUpgradeMetadata holds vocabulary, filterbank and dimensions against what the program
// that wrote the APR1 files says.
func TestUpgradeMetadata(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.apr")
	for path, want := range describedFixtures(t) {
		var source map[string]any
		if want.Format != "apr1" || want.Error != nil || json.Unmarshal(want.Metadata, &source) != nil {
			continue
		}
		done(t, "upgrade", path, out)
		got := inspected(t, out).Metadata
		architecture, _ := got["architecture"].(map[string]any)
		rest, _ := got["apr1"].(map[string]any)
		_, binary := source["n_vocab"]
		for key, value := range source {
			is := rest[key]
			switch {
			case strings.HasPrefix(key, "n_"):
				is = architecture[key]
			case key == "vocab", strings.HasPrefix(key, "mel_filterbank"):
				is = got[key]
			case key == "model_type" && binary:
				is = architecture["name"]
			case key == "model_type":
				is = got[key]
			}
			if top, ok := got[key]; !binary && ok {
				is = top // of JSON with keys that APR2 has as well
			}
			if !reflect.DeepEqual(asFloat32s(is), asFloat32s(value)) && key != "apr_version" {
				t.Errorf("%s: %s: %v, want %v", path, key, is, value)
			}
		}
		if binary && got["model_type"] != "whisper" {
			t.Errorf("%s: model_type %v", path, got["model_type"])
		}
	}
}

// asFloat32s is a list of numbers as float32s, which JSON may write with more digits than they
// need; anything else is what it is.
func asFloat32s(v any) any {
	list, _ := v.([]any)
	floats := make([]any, len(list))
	for i, e := range list {
		floats[i] = e
		if f, ok := e.(float64); ok {
			floats[i] = float32(f)
		}
	}
	if list == nil {
		return v
	}
	return floats
}

// TestUpgradeBytes: tokens that are not UTF-8 are there byte by byte.
func TestUpgradeBytes(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.apr")
	done(t, "upgrade", "../../testdata/apr1/merges.apr", out)
	rest, _ := inspected(t, out).Metadata["apr1"].(map[string]any)
	text, _ := rest["vocab_bytes"].(string)
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || string(b) != "\x01\x00\x00\x00\x02\x00\x00\x00\x01\x00a\x02\x00\xe3\x81\x01\x00\x82\x00\x00\x00\x00" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestUpgradeRefuses(t *testing.T) {
	dir := t.TempDir()
	for file, format := range map[string]string{
		modeltest.Small(t):                     "safetensors",
		apr2Fixtures + "tiny.apr":              "apr2",
		"../../testdata/gguf/v3.gguf":          "gguf",
		"../../testdata/tsm/empty.tsm":         "tsm",
		"../../testdata/april/streaming.april": "april",
		"../../testdata/bw2l/v1.b2l":           "bw2l",
	} {
		tensormap("upgrade", file, filepath.Join(dir, "out.apr")).failsWith(t, file, "is "+format+", not apr1", "use convert")
	}
	empty(t, dir)
}

// TestUpgradeDType re-encodes int8 with scales.
func TestUpgradeDType(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out") // the verb says that it is APR2
	if r := tensormap("upgrade", "../../testdata/apr1/whisper_int8.apr", out+".safetensors"); r.status != exitUsage || !strings.Contains(r.stderr, "is a name for safetensors, not for apr2") {
		t.Errorf("%+v", r)
	}
	done(t, "upgrade", "../../testdata/apr1/whisper_int8.apr", out, "--dtype", "f32")
	for _, x := range inspected(t, out).Tensors {
		if x.DType != "F32" {
			t.Errorf("%s is %s", x.Name, x.DType)
		}
		if a, b := done(t, "dump", out, x.Name), done(t, "dump", "../../testdata/apr1/whisper_int8.apr", x.Name); a != b {
			t.Errorf("%s: other values", x.Name)
		}
	}
}
