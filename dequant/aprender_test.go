package dequant

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// TestExpandAsAprender expands the tensors of ../testdata/aprender that aprender's own crates
// have written and read, and those that the Python package gguf has expanded.
func TestExpandAsAprender(t *testing.T) {
	expectations, err := filepath.Glob("../testdata/aprender/*.json")
	if err != nil || len(expectations) < 20 {
		t.Fatalf("%d fixtures: %v", len(expectations), err)
	}
	expanded := map[layout.DType]int{}
	for _, path := range expectations {
		var want struct {
			File    string
			Tensors []struct {
				Name, DType    string
				Shape          []int
				Offset, Stored int
				SHA256         string `json:"f32_sha256"`
			}
		}
		b, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(b, &want)
		}
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(filepath.Join(filepath.Dir(path), want.File))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range want.Tensors {
			d, _ := layout.ParseDType(x.DType)
			n, _ := layout.Elements(x.Shape)
			got := make([]float32, n)
			if err := Expand(d, got, file[x.Offset:][:x.Stored]); err != nil {
				t.Errorf("%s, %s: %v", want.File, x.Name, err)
			}
			if sum := hashOf(got); sum != x.SHA256 {
				t.Errorf("%s, %s (%v): %v has the hash %s, want %s", want.File, x.Name, d, got, sum, x.SHA256)
			}
			expanded[d] += len(got)
		}
	}
	if expanded[layout.APR_Q4] < 500 || expanded[layout.APR_Q8] < 200 {
		t.Errorf("elements expanded: %v", expanded)
	}
}

// hashOf is the SHA-256 of values as the files have them.
func hashOf(values []float32) string {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
