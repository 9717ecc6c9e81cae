package loader_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/layout"
)

// described is a tensor as the JSON beside a fixture describes it, which the program that
// wrote the fixture has written too.
type described struct {
	name   string
	dtype  string
	shape  []int
	offset uint64
	stored uint64
	sha256 string    // of the stored bytes
	raw    bool      // not compressed
	rawSum string    // SHA-256 of the elements, where it is known
	first  []float32 // the first values, where they are known
}

// witness returns the tensors of the fixture at path, as the JSON file beside it describes them.
func witness(t testing.TB, path string) (list []described) {
	t.Helper()
	b := must(os.ReadFile(strings.TrimSuffix(path, filepath.Ext(path)) + ".json"))(t)
	var file struct {
		Tensors []struct {
			Name     string
			DType    string
			Shape    []int
			Offset   uint64
			Encoding string

			// safetensors
			Bytes  uint64
			SHA256 string
			First  []string

			// apr2
			Stored       uint64
			StoredSHA256 string  `json:"stored_sha256"`
			RawSHA256    string  `json:"raw_sha256"`
			F32          *string `json:"f32_hex"`
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	for _, x := range file.Tensors {
		d := described{x.Name, x.DType, x.Shape, x.Offset, x.Bytes + x.Stored, x.SHA256 + x.StoredSHA256, x.Encoding != "lz4", x.RawSHA256, nil}
		if d.raw {
			for _, text := range x.First { // as Python prints them
				switch text {
				case "True":
					text = "1"
				case "False":
					text = "0"
				}
				v, err := strconv.ParseFloat(text, 32)
				if err != nil && v == 0 { // a complex number
					d.first = nil
					break
				}
				d.first = append(d.first, float32(v)) // infinite where it is too large
			}
		}
		if x.F32 != nil {
			b, err := hex.DecodeString(*x.F32)
			if err != nil {
				t.Fatal(err)
			}
			d.first = kerneltest.Floats(b)
		}
		list = append(list, d)
	}
	return list
}

func TestFixtureBytes(t *testing.T) {
	for _, path := range fixtures(t) {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m := openPath(t, path, nil)
		list := witness(t, path)
		if m.Len() != len(list) {
			t.Errorf("%s: %d tensors, want %d", path, m.Len(), len(list))
		}
		for _, w := range list {
			x := tensor(t, m, w.name)
			if x.DType().String() != w.dtype || !slices.Equal(x.Shape(), w.shape) || x.Offset() != w.offset || x.StoredBytes() != w.stored {
				t.Errorf("%s: %s: %v %v, %d bytes at %d; want %+v", path, w.name, x.DType(), x.Shape(), x.StoredBytes(), x.Offset(), w)
				continue
			}
			if sum := sha256.Sum256(file[w.offset:][:w.stored]); hex.EncodeToString(sum[:]) != w.sha256 {
				t.Fatalf("%s is not the file that its JSON describes", path)
			}
			if (x.Encoding() == layout.Raw) != w.raw {
				t.Errorf("%s: %s is stored as %v", path, w.name, x.Encoding())
			}
			b, err := x.Bytes()
			var written bytes.Buffer
			n, err2 := x.WriteTo(&written)
			if !w.raw {
				if sum := sha256.Sum256(b); err != nil || err2 != nil || hex.EncodeToString(sum[:]) != w.rawSum || !bytes.Equal(written.Bytes(), b) {
					t.Errorf("%s: %s: other bytes; %v, %v", path, w.name, err, err2)
				}
				continue
			}
			if err != nil || err2 != nil || !bytes.Equal(b, file[w.offset:][:w.stored]) || !bytes.Equal(written.Bytes(), b) || n != int64(len(b)) {
				t.Errorf("%s: %s: other bytes; %v, %v", path, w.name, err, err2)
			}
		}
	}
}
