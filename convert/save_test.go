package convert_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// saved are tensors whose order is not that of their alignment.
func saved() []convert.SaveTensor {
	return []convert.SaveTensor{
		{"bytes", layout.U8, []int{3}, []byte{1, 2, 3}},
		{"w", layout.F32, []int{2, 3}, mmapio.Bytes([]float32{1, 2, 3, 4, 5, 6})},
		{"b", layout.F16, []int{1}, []byte{0, 0x3c}},
		{"wide", layout.F64, []int{2}, mmapio.Bytes([]float64{1, 2})},
		{"none", layout.F32, []int{0, 4}, nil},
	}
}

// TestSave writes all formats, and reads the same tensors and metadata, all in place where files are mapped.
func TestSave(t *testing.T) {
	for suffix, md := range map[string]layout.Metadata{
		".safetensors": {{Key: "format", Value: "pt"}, {Key: "layers", Value: 24}},
		".apr":         {{Key: "format", Value: "pt"}, {Key: "layers", Value: 24}},
		".gguf":        {{Key: "general.architecture", Value: "llama"}, {Key: "layers", Value: uint32(24)}},
	} {
		tensors := saved()
		if suffix == ".gguf" {
			tensors[0].DType = layout.I8
			tensors = tensors[:4] // ggml has no tensor without elements
		}
		path := filepath.Join(t.TempDir(), "model"+suffix)
		if err := convert.Save(t.Context(), path, tensors, &convert.SaveOptions{Metadata: md}); err != nil {
			t.Fatal(err)
		}
		m := open(t, path, nil)
		if m.Len() != len(tensors) {
			t.Errorf("%s: %d tensors", suffix, m.Len())
		}
		for _, want := range tensors {
			x, err := m.Tensor(want.Name)
			if err != nil {
				t.Fatal(err)
			}
			b, err := x.Bytes()
			if err != nil || !bytes.Equal(b, want.Data) || x.DType() != want.DType || x.ZeroCopy() != (runtime.GOOS != "js") {
				t.Errorf("%s: %s: %v %v, in place: %v, %v", suffix, want.Name, x.DType(), b, x.ZeroCopy(), err)
			}
		}
		all, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		if layers, _ := all.Get("layers"); layers == nil {
			t.Errorf("%s: %v", suffix, all)
		}
	}
}

// TestSaveFails: what cannot be written is a typed error, and leaves neither a file nor a change of the old one.
func TestSaveFails(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	short, twice, codes := saved(), saved(), saved()
	short[1].Data = short[1].Data[:20]
	twice[1].Name = "bytes"
	codes[0].DType, codes[0].Shape, codes[0].Data = layout.Q4_0, []int{32}, make([]byte, 18)
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		file    string
		tensors []convert.SaveTensor
		format  bool // of the error
		want    error
	}{
		{"short", t.Context(), "m.safetensors", short, true, nil},
		{"short", t.Context(), "m.apr", short, true, nil},
		{"twice", t.Context(), "m.safetensors", twice, true, nil},
		{"a dtype of another format", t.Context(), "m.safetensors", codes, true, nil},
		{"no format", t.Context(), "m.txt", saved(), false, layout.ErrUnsupported},
		{"cancelled", ended, "m.apr", saved(), false, context.Canceled},
		{"nothing, cancelled", ended, "m.gguf", nil, false, context.Canceled},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, tt.file)
		if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
		err := convert.Save(tt.ctx, path, tt.tensors, nil)
		_, format := errors.AsType[*layout.FormatError](err)
		if err == nil || format != tt.format || !errors.Is(err, tt.want) && tt.want != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		entries, err := os.ReadDir(dir)
		if b, _ := os.ReadFile(path); len(entries) != 1 || string(b) != "old" {
			t.Errorf("%s: %v, %q, %v", tt.name, entries, b, err)
		}
	}
}

// TestSaveReplaces: an older file goes, and a format may have any name.
func TestSaveReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model")
	for _, f := range []layout.Format{layout.SafeTensors, layout.APR2} {
		if err := convert.Save(t.Context(), path, saved()[:2], &convert.SaveOptions{Format: f}); err != nil {
			t.Fatal(err)
		}
		m, err := loader.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if m.Format() != f {
			t.Errorf("%v, want %v", m.Format(), f)
		}
		m.Close()
	}
}
