package trust_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
)

// memory is a file in memory that has a name.
type memory struct {
	*bytes.Reader
	name string
}

func (m memory) Name() string { return m.name }

// signedBundle signs files in chunks of 64 KiB, and returns what the bundle says.
func signedBundle(t *testing.T, files map[string][]byte) *trust.Statement {
	t.Helper()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "model.sig")
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	key, err := trust.GenerateKey(trust.P256)
	if err != nil {
		t.Fatal(err)
	}
	if err := trust.Sign(t.Context(), dir, out, key, &trust.SignOptions{ChunkBytes: layout.MinChunk}); err != nil {
		t.Fatal(err)
	}
	return trust.Verified(t, out, key)
}

// TestBundleModelEveryByte flips a bit of every byte of a small model that a bundle signs, cuts it and
// extends it.
func TestBundleModelEveryByte(t *testing.T) {
	b := modeltest.SafeTensors(modeltest.Tensor{Name: "a", DType: layout.F32, Shape: []int{20}, Data: modeltest.Counting(80)},
		modeltest.Tensor{Name: "b", DType: layout.U8, Shape: []int{33}, Data: modeltest.Counting(33)})
	s := signedBundle(t, map[string][]byte{"m.safetensors": b})
	open := func(name string, b []byte) error {
		m, err := loader.OpenReaderAt(t.Context(), memory{bytes.NewReader(b), name}, int64(len(b)), &loader.Options{Trust: s})
		if err != nil {
			return err
		}
		defer m.Close()
		return m.VerifyTrust(context.Background(), nil)
	}
	if err := open("m.safetensors", b); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] ^= 1 << (i % 8)
		if err := open("m.safetensors", b); !errors.Is(err, layout.ErrChecksum) || !strings.Contains(err.Error(), "chunk 0") {
			t.Fatalf("byte %d: %v", i, err)
		}
		b[i] ^= 1 << (i % 8)
		if err := open("m.safetensors", b[:i]); !errors.Is(err, layout.ErrChecksum) {
			t.Fatalf("cut after %d bytes: %v", i, err)
		}
	}
	if err := open("m.safetensors", append(bytes.Clone(b), 0)); !errors.Is(err, layout.ErrChecksum) {
		t.Error("extended:", err)
	}
	if err := open("n.safetensors", b); !errors.Is(err, trust.ErrUnsigned) {
		t.Error("under another name:", err)
	}
}

// TestBundleSwapped swaps chunks, tensors and files of a signed model: what is not where it was is an error that
// names tensor and chunk, and other tensors go on working.
func TestBundleSwapped(t *testing.T) {
	const n = 4 * layout.MinChunk
	random := func(seed byte) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i>>16)*101 + byte(i>>8)*31 + byte(i)*7 + seed
		}
		return b
	}
	file := func(seed byte) []byte {
		return modeltest.SafeTensors(modeltest.Tensor{Name: "a", DType: layout.U8, Shape: []int{n}, Data: random(seed)},
			modeltest.Tensor{Name: "b", DType: layout.U8, Shape: []int{n}, Data: random(seed + 1)}, modeltest.Tensor{Name: "c", DType: layout.U8, Shape: []int{n}, Data: random(seed + 2)})
	}
	one, two := file(1), file(9)
	s := signedBundle(t, map[string][]byte{"1.safetensors": one, "2.safetensors": two})
	swap := func(i, j, n int) []byte {
		b := bytes.Clone(one)
		copy(b[i:], one[j:j+n])
		copy(b[j:], one[i:i+n])
		return b
	}
	data := len(one) - 3*n
	for what, c := range map[string]struct {
		b     []byte
		wrong string // the tensors that are spoiled
	}{
		"chunks":  {swap(2*layout.MinChunk, 3*layout.MinChunk, layout.MinChunk), "a"},
		"tensors": {swap(data, data+n, n), ""}, // the first chunk has the head, too
		"far":     {swap(5*layout.MinChunk, 10*layout.MinChunk, layout.MinChunk), "bc"},
		"files":   {two, ""},
	} {
		m, err := loader.OpenReaderAt(t.Context(), memory{bytes.NewReader(c.b), "1.safetensors"}, int64(len(c.b)), &loader.Options{Trust: s})
		if c.wrong == "" {
			if !errors.Is(err, layout.ErrChecksum) {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for x := range m.Tensors() {
			_, err := x.Bytes()
			var wrong *loader.IntegrityError
			if spoiled := strings.Contains(c.wrong, x.Name()); spoiled != errors.As(err, &wrong) || spoiled && wrong.Tensor != x.Name() || !spoiled && err != nil {
				t.Errorf("%s, %s: %v", what, x.Name(), err)
			}
		}
		m.Close()
	}
}
