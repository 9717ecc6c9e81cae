package safetensors

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// format is what all tests of the package decode.
var format = layouttest.Format[*File]{
	ID: layout.SafeTensors, Decode: Decode, Dir: "../../testdata/safetensors", Ext: ".safetensors", Least: 4, Promises: checkPromises,
}

// expected is what Python read from a file of testdata.
type expected struct {
	Size     uint64
	Metadata map[string]string
	Tensors  []struct {
		Name   string
		DType  string
		Shape  []int
		Offset uint64
		Bytes  uint64
		SHA256 string
		First  []string
	}
}

// tensors are those of Python's in the words of layouttest.
func (e *expected) tensors() (list []layouttest.Tensor) {
	for _, x := range e.Tensors {
		list = append(list, layouttest.Tensor{Name: x.Name, DType: x.DType, Encoding: "raw", Shape: x.Shape, Offset: x.Offset,
			Stored: x.Bytes, Raw: x.Bytes, StoredSHA256: x.SHA256})
	}
	return list
}

func TestFilesOfPython(t *testing.T) {
	for _, name := range []string{"dtypes", "names", "empty", "minilm-slice"} {
		t.Run(name, func(t *testing.T) {
			b := format.Read(t, name)
			var want expected
			format.Description(t, name, &want)
			f := format.MustDecode(t, b)
			ix := f.Index()
			if ix.Format != layout.SafeTensors || ix.Size != want.Size {
				t.Errorf("%v, %d bytes; want %d", ix.Format, ix.Size, want.Size)
			}
			layouttest.CheckTensors(t, f, b, want.tensors())
			for i, w := range want.Tensors {
				if got := &ix.Tensors[i]; got.DType == layout.F32 {
					sameFirst(t, w.Name, b[got.Offset:][:got.Stored], w.First)
				}
			}
			md, err := f.Metadata(b)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for k, v := range md.All() {
				got[k] = v.(string)
			}
			if !maps.Equal(got, want.Metadata) {
				t.Errorf("metadata %q, want %q", got, want.Metadata)
			}
		})
	}
}

// sameFirst compares the first values as numbers, which shows that the order of bytes
// is the one that Python sees.
func sameFirst(t *testing.T, name string, b []byte, want []string) {
	t.Helper()
	for i, w := range want {
		f, err := strconv.ParseFloat(w, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])); got != float32(f) {
			t.Errorf("%q[%d] = %v, want %v", name, i, got, w)
		}
	}
}

// TestDTypesOfPython makes sure that the file really holds all dtypes but those that
// Python cannot write.
func TestDTypesOfPython(t *testing.T) {
	seen := map[layout.DType]bool{}
	for _, x := range format.MustDecode(t, format.Read(t, "dtypes")).Index().Tensors {
		seen[x.DType] = true
	}
	for _, d := range dtypesOfFormat {
		python := d.name != "F6_E2M3" && d.name != "F6_E3M2"
		if dtype, _ := layout.ParseDType(d.name); seen[dtype] != python {
			t.Errorf("%s in the file: %v, want %v", d.name, seen[dtype], python)
		}
	}
}

func ExampleDecode() {
	b, err := os.ReadFile("../../testdata/safetensors/minilm-slice.safetensors")
	if err != nil {
		panic(err)
	}
	f, err := Decode(layout.Bytes(b), nil)
	if err != nil {
		panic(err)
	}
	for _, t := range f.Index().Tensors {
		fmt.Println(string(t.Name), t.DType, t.Shape)
	}
	// Output:
	// embeddings.position_ids I64 [1 512]
	// embeddings.LayerNorm.bias F32 [384]
	// embeddings.LayerNorm.weight F32 [384]
	// embeddings.token_type_embeddings.weight F32 [2 384]
	// embeddings.word_embeddings.weight F32 [64 384]
	// encoder.layer.0.attention.output.dense.bias F32 [384]
}
