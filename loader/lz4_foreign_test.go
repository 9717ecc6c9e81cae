package loader_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// TestForeignLZ4 reads blocks of other encoders in every way to open a file, and compares
// with what the fixtures' writer says was compressed.
func TestForeignLZ4(t *testing.T) {
	paths, err := filepath.Glob("../testdata/lz4/*.apr")
	if err != nil || len(paths) < 6 {
		t.Fatal(paths, err)
	}
	for i, path := range paths {
		ways := localWays
		if testmode.Brief() { // one for each file
			ways = ways[i%len(ways):][:1]
		}
		text, err := os.ReadFile(strings.TrimSuffix(path, ".apr") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var want struct {
			Tensors []struct {
				Name, Encoding string
				Stored, Raw    uint64
				StoredSHA256   string `json:"stored_sha256"`
				RawSHA256      string `json:"raw_sha256"`
				F32SHA256      string `json:"f32_sha256"`
			}
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		for _, w := range ways {
			m, err := w.open(t, path, nil)
			if err != nil {
				t.Fatal(err)
			}
			compressed := 0
			for _, d := range want.Tensors {
				x := tensor(t, m, d.Name)
				if x.Encoding().String() != d.Encoding || x.StoredBytes() != d.Stored || x.RawBytes() != d.Raw {
					t.Errorf("%s: %s: %v, %d bytes of %d", path, d.Name, x.Encoding(), x.StoredBytes(), x.RawBytes())
				}
				if x.Encoding() == layout.LZ4 {
					compressed++
				}
				same := func(what string, b []byte, want string, err error) {
					t.Helper()
					if sum := sha256.Sum256(b); err != nil || hex.EncodeToString(sum[:]) != want {
						t.Errorf("%s: %s: other bytes; %v", x.Name(), what, err)
					}
				}
				var written, writtenStored bytes.Buffer
				_, err := x.WriteTo(&written)
				same("WriteTo", written.Bytes(), d.RawSHA256, err)
				_, err = x.WriteDecrypted(&writtenStored)
				same("WriteDecrypted", writtenStored.Bytes(), d.StoredSHA256, err)
				dst := make([]float32, x.Elements())
				err = x.Dequantize(dst)
				same("Dequantize", mmapio.Bytes(dst), d.F32SHA256, err)
				if shape := x.Shape(); len(shape) > 1 && shape[0] > 0 {
					clear(dst)
					rows, cols := uint64(shape[0]), uint64(shape[1])
					for first := uint64(0); first < rows && err == nil; first += 7 {
						n := min(7, rows-first)
						err = x.DequantizeRows(dst[first*cols:(first+n)*cols], first, n)
					}
					same("DequantizeRows", mmapio.Bytes(dst), d.F32SHA256, err)
				}
				b, err := x.Bytes()
				same("Bytes", b, d.RawSHA256, err)
				f, err := x.Float32s()
				same("Float32s", mmapio.Bytes(f), d.F32SHA256, err)
			}
			if compressed < 10 || m.Len() != len(want.Tensors) {
				t.Errorf("%s: %d of %d tensors compressed, %d described", path, compressed, m.Len(), len(want.Tensors))
			}
			m.Close()
		}
	}
}
