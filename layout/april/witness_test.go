package april

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

const fixtures = "../../testdata/april"

// expected is what gen_april.py, which wrote the fixtures, says about one; values are what
// the Python package onnx reads.
type expected struct {
	Size     uint64
	Version  string
	Metadata json.RawMessage
	Tensors  []struct {
		Name, DType, Encoding string
		Shape                 []uint64
		Offset, Stored, Raw   uint64
		RawSHA256             string `json:"raw_sha256"`
		ZeroCopy              bool   `json:"zero_copy"`
	}
	Verify   string
	Findings []string
	Error    *struct {
		Field  string
		Offset uint64
	}
}

func fixtureNames(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(fixtures + "/*.april")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(p), ".april")
	}
	return paths
}

func fixture(t testing.TB, name string) layout.Bytes {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(fixtures, name+".april"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func expectation(t *testing.T, name string) (want expected) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(fixtures, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	return want
}

func mustDecode(t testing.TB, in layout.Input) *File {
	t.Helper()
	f, err := Decode(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// checkError makes sure that err is about the field at the offset and says what it should.
func checkError(t *testing.T, err, sentinel error, field string, at uint64, says string) {
	t.Helper()
	var fe *layout.FormatError
	if !errors.As(err, &fe) || !errors.Is(err, sentinel) || fe.Format != layout.April || fe.Field != field || fe.Offset != at ||
		!strings.Contains(fe.Reason, says) {
		t.Errorf("got %v; want %s at %d (%v) that says %q", err, field, at, sentinel, says)
	}
}

func TestWitness(t *testing.T) {
	for _, name := range fixtureNames(t) {
		t.Run(name, func(t *testing.T) {
			data, want := fixture(t, name), expectation(t, name)
			f, err := Decode(data, nil)
			if want.Error != nil {
				var fe *layout.FormatError
				if !errors.As(err, &fe) || fe.Field != want.Error.Field || fe.Offset != want.Error.Offset {
					t.Errorf("got %v, want an error like %+v", err, *want.Error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkTensors(t, f, data, &want)
			checkMetadata(t, f, data, want.Metadata)
			checkFindings(t, f, data, &want)
		})
	}
}

func checkTensors(t *testing.T, f *File, data layout.Bytes, want *expected) {
	ix := f.Index()
	if ix.Version != want.Version || ix.Size != want.Size {
		t.Errorf("version %q, size %d, want %q, %d", ix.Version, ix.Size, want.Version, want.Size)
	}
	if len(ix.Tensors) != len(want.Tensors) {
		t.Fatalf("%d tensors, want %d", len(ix.Tensors), len(want.Tensors))
	}
	for i, w := range want.Tensors {
		got := &ix.Tensors[i]
		if string(got.Name) != w.Name || got.DType.String() != w.DType || got.Encoding.String() != w.Encoding ||
			!slices.Equal(got.Shape, w.Shape) || got.Offset != w.Offset || got.Stored != w.Stored || got.Raw != w.Raw {
			t.Errorf("tensor %d: got %+v, want %+v", i, got, w)
			continue
		}
		if zeroCopy := got.Encoding == layout.Raw && ix.Aligned(got); zeroCopy != w.ZeroCopy || ix.Find(w.Name) != i {
			t.Errorf("%s: that it may be used in place is %t, Find is %d", w.Name, zeroCopy, ix.Find(w.Name))
		}
		elements, err := elementsOf(f, data, got)
		if sum := sha256.Sum256(elements); err != nil || hex.EncodeToString(sum[:]) != w.RawSHA256 {
			t.Errorf("%s: other elements than onnx's: %x, %v", w.Name, elements, err)
		}
	}
}

// elementsOf is what a user gets to see of a tensor.
func elementsOf(f *File, data layout.Bytes, t *layout.Tensor) ([]byte, error) {
	if t.Encoding == layout.Raw {
		return data.Slice(t.Offset, t.Stored)
	}
	dst := make([]byte, t.Raw)
	return dst, f.Unpack(data, t, dst)
}

func checkMetadata(t *testing.T, f *File, data layout.Bytes, want []byte) {
	md, err := f.Metadata(data)
	if err != nil {
		t.Error(err)
		return
	}
	b, err := md.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var got, exp any
	if json.Unmarshal(b, &got) != nil || json.Unmarshal(want, &exp) != nil || !reflect.DeepEqual(got, exp) {
		t.Errorf("metadata %s, want %s", b, want)
	}
}

func checkFindings(t *testing.T, f *File, data layout.Bytes, want *expected) {
	verify, fields := "ok", []string{}
	for _, finding := range f.Audit(data) {
		fields = append(fields, finding.Field)
		if !finding.Warning {
			verify = "fail"
		}
	}
	slices.Sort(fields)
	if !slices.Equal(fields, want.Findings) || verify != want.Verify {
		t.Errorf("found %q, %s; want %q, %s", fields, verify, want.Findings, want.Verify)
	}
}
