package safetensors

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

const testdata = "../../testdata/safetensors"

// expected is what Python read from a file of testdata.
type expected struct {
	Size     uint64
	Metadata map[string]string
	Tensors  []struct {
		Name   string
		DType  string
		Shape  []uint64
		Offset uint64
		Bytes  uint64
		SHA256 string
		First  []string
	}
}

func TestFilesOfPython(t *testing.T) {
	for _, name := range []string{"dtypes", "names", "empty", "minilm-slice"} {
		t.Run(name, func(t *testing.T) {
			b := read(t, name+".safetensors")
			var want expected
			if err := json.Unmarshal(read(t, name+".json"), &want); err != nil {
				t.Fatal(err)
			}
			f, err := Decode(layout.Bytes(b), nil)
			if err != nil {
				t.Fatal(err)
			}
			ix := f.Index()
			if ix.Format != layout.SafeTensors || ix.Size != want.Size || len(ix.Tensors) != len(want.Tensors) {
				t.Fatalf("%v, %d bytes, %d tensors; want %d bytes, %d tensors", ix.Format, ix.Size, len(ix.Tensors), want.Size, len(want.Tensors))
			}
			for i, w := range want.Tensors {
				got := &ix.Tensors[i]
				if string(got.Name) != w.Name || got.DType.String() != w.DType || !slices.Equal(got.Shape, w.Shape) ||
					got.Offset != w.Offset || got.Stored != w.Bytes || got.Raw != w.Bytes || got.Encoding != layout.Raw {
					t.Errorf("tensor %d: got %+v, want %+v", i, got, w)
				}
				if ix.Find(w.Name) != i {
					t.Errorf("Find(%q) = %d, want %d", w.Name, ix.Find(w.Name), i)
				}
				stored := b[got.Offset:][:got.Stored]
				if sum := sha256.Sum256(stored); hex.EncodeToString(sum[:]) != w.SHA256 {
					t.Errorf("%q: bytes differ", w.Name)
				}
				if got.DType == layout.F32 {
					sameFirst(t, w.Name, stored, w.First)
				}
			}
			md, err := f.Metadata(layout.Bytes(b))
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
	f, err := Decode(layout.Bytes(read(t, "dtypes.safetensors")), nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[layout.DType]bool{}
	for _, x := range f.Index().Tensors {
		seen[x.DType] = true
	}
	for _, d := range dtypesOfFormat {
		python := d.name != "F6_E2M3" && d.name != "F6_E3M2"
		if dtype, _ := layout.ParseDType(d.name); seen[dtype] != python {
			t.Errorf("%s in the file: %v, want %v", d.name, seen[dtype], python)
		}
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
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
