package trust_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
)

func newKey(t testing.TB) (*apr2.Signer, *trust.Embedded) {
	t.Helper()
	key, err := trust.GenerateKey(trust.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer, embedded(t, key.Public())
}

func embedded(t testing.TB, key crypto.PublicKey) *trust.Embedded {
	t.Helper()
	e, err := trust.NewEmbedded(key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// signedFile writes a signed model of two tensors of n values each.
func signedFile(t testing.TB, signer *apr2.Signer, n int) []byte {
	t.Helper()
	in, err := loader.Open(modeltest.Write(t, "in.safetensors", modeltest.SafeTensors(
		modeltest.Tensor{Name: "a", DType: layout.F32, Shape: []int{n}, Data: modeltest.Counting(4 * n)},
		modeltest.Tensor{Name: "b", DType: layout.F32, Shape: []int{n}, Data: modeltest.Counting(4 * n)})), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	return write(t, in, &convert.Options{Signer: signer})[0]
}

// write converts a model and returns the files: the only one, or the manifest and the shards.
func write(t testing.TB, in *loader.Model, opts *convert.Options) (files [][]byte) {
	t.Helper()
	dir := t.TempDir()
	plan, err := convert.NewPlan(t.Context(), in, filepath.Join(dir, "m.apr"), opts)
	if err == nil {
		err = plan.Write(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		b, err := os.ReadFile(filepath.Join(dir, entries[(i+len(entries)-1)%len(entries)].Name()))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, b)
	}
	return files
}

// readAll opens b and reads all of it.
func readAll(b []byte, opts *loader.Options) error {
	m, err := loader.OpenBytes(b, opts)
	if err != nil {
		return err
	}
	defer m.Close()
	for t := range m.Tensors() {
		if _, err := t.WriteTo(io.Discard); err != nil {
			return err
		}
	}
	return nil
}

const footer = 16 // whose checksum protects against accidents only

// TestEmbeddedEveryByte flips a bit of every byte of a signed file.
func TestEmbeddedEveryByte(t *testing.T) {
	signer, key := newKey(t)
	b := signedFile(t, signer, 20)
	if err := readAll(b, &loader.Options{Trust: key}); err != nil {
		t.Fatal(err)
	}
	for i := range len(b) - footer {
		b[i] ^= 1 << (i % 8)
		m, err := loader.OpenBytes(b, &loader.Options{Trust: key})
		if err == nil {
			err = m.VerifyTrust(t.Context(), nil) // padding too
			m.Close()
			if !errors.Is(err, layout.ErrChecksum) {
				t.Fatalf("byte %d of %d: %v", i, len(b), err)
			}
		}
		b[i] ^= 1 << (i % 8)
	}
	for n := range len(b) {
		if readAll(b[:n], &loader.Options{Trust: key}) == nil {
			t.Fatalf("cut after %d of %d bytes: passes", n, len(b))
		}
	}
	if err := readAll(append(bytes.Clone(b), b[len(b)-footer:]...), &loader.Options{Trust: key}); err == nil {
		t.Error("extended: passes")
	}
}

// TestEmbeddedRandom flips bits at random places of a larger file, and reads the tensor there.
func TestEmbeddedRandom(t *testing.T) {
	signer, key := newKey(t)
	signer.ChunkBytes = layout.MinChunk // or else 4 MiB are hashed each time
	b := signedFile(t, signer, 1<<21)
	times := 10000
	if testmode.Brief() {
		times = 50
	}
	random := rand.New(rand.NewPCG(1, 2))
	good, err := loader.OpenBytes(bytes.Clone(b), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	for range times {
		var at uint64
		name := []string{"a", "b"}[random.IntN(2)]
		x, err := good.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		at = x.Offset() + random.Uint64N(x.StoredBytes())
		b[at] ^= 4
		m, err := loader.OpenBytes(b, &loader.Options{Trust: key})
		if err != nil {
			t.Fatal(err)
		}
		y, err := m.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		var wrong *loader.IntegrityError
		if _, err = y.ReadAt(make([]byte, 1), int64(at-x.Offset())); !errors.As(err, &wrong) || wrong.Tensor != name || at < wrong.Offset || at-wrong.Offset >= layout.MinChunk {
			t.Fatalf("byte %d: %v", at, err)
		}
		if _, err = y.ReadAt(make([]byte, 1), int64((at-x.Offset()+2*layout.MinChunk)%x.StoredBytes())); err != nil {
			t.Fatalf("byte %d, elsewhere: %v", at, err)
		}
		m.Close()
		b[at] ^= 4
	}
}

// TestEmbeddedTampered has signed files changed with intent.
func TestEmbeddedTampered(t *testing.T) {
	signer, key := newKey(t)
	good := signedFile(t, signer, 100000) // several chunks would take 4 MiB each
	other := signedFile(t, signer, 100001)
	stranger, strange := newKey(t)
	le := binary.LittleEndian
	data := le.Uint32(good[28:])
	replace := func(old, new string) []byte {
		if !bytes.Contains(good, []byte(old)) || len(old) != len(new) {
			t.Fatalf("%q for %q", new, old)
		}
		return bytes.Replace(bytes.Clone(good), []byte(old), []byte(new), 1)
	}
	change := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	for what, b := range map[string][]byte{
		"another signer":     signedFile(t, stranger, 100000),
		"flag cleared":       change(func(b []byte) { le.PutUint32(b[8:], le.Uint32(b[8:])&^32) }),
		"minor 0":            change(func(b []byte) { le.PutUint16(b[6:], 0) }),
		"key in capitals":    replace(`"signature"`, `"Signature"`),
		"member in capitals": replace(`"digests"`, `"Digests"`),
		"unknown algorithm":  replace(`"Ed25519"`, `"Ed25518"`),
		"data of another":    append(bytes.Clone(good[:data]), other[le.Uint32(other[28:]):]...),
		"head of another":    append(bytes.Clone(other[:le.Uint32(other[28:])]), good[data:]...),
		"swapped tensors": change(func(b []byte) {
			n := (len(b) - footer - int(data)) / 2 &^ 63
			half := bytes.Clone(b[data:][:n])
			copy(b[data:], b[int(data)+n:][:n])
			copy(b[int(data)+n:], half)
			b[data]++
		}),
		"sections moved": change(func(b []byte) { le.PutUint32(b[12:], 33) }),
		"no file":        []byte("APR2"),
		"safetensors":    modeltest.SafeTensors(modeltest.Tensor{Name: "a", DType: layout.F32, Shape: []int{1}, Data: make([]byte, 4)}),
	} {
		if err := readAll(b, &loader.Options{Trust: key}); err == nil {
			t.Errorf("%s: passes", what)
		}
	}
	if err := readAll(good, &loader.Options{Trust: strange}); !errors.Is(err, trust.ErrSignature) {
		t.Errorf("another key: %v", err)
	}
	if err := readAll(good, &loader.Options{Trust: key}); err != nil {
		t.Error(err)
	}
	// A key twice, at any depth, is refused before the signature counts.
	twice := bytes.Replace(good, []byte(`"algorithm":"Ed25519"`), []byte(`"algorithm":"Ed25519","algorithm":"Ed25519"`), 1)
	if err := readAll(twice, &loader.Options{Trust: key}); err == nil {
		t.Error("a key twice: passes")
	}
	if m, err := loader.OpenBytes(good, nil); err != nil {
		t.Error("without trust:", err)
	} else {
		m.Close()
	}
}

// TestEmbeddedOfPython reads a file that a Python script signed.
func TestEmbeddedOfPython(t *testing.T) {
	key, err := trust.ReadPublicKey("../testdata/trust/signed.pub.pem")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("../testdata/trust/signed.apr")
	if err != nil {
		t.Fatal(err)
	}
	if err := readAll(b, &loader.Options{Trust: embedded(t, key)}); err != nil {
		t.Error(err)
	}
	// Its chunks have 64 KiB: a wrong one spoils the tensors that touch it only.
	m, err := loader.OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := m.Tensor("a")
	if err != nil {
		t.Fatal(err)
	}
	b[x.Offset()+10] ^= 1
	bad, err := loader.OpenBytes(b, &loader.Options{Trust: embedded(t, key)})
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	for x := range bad.Tensors() {
		_, err := x.Bytes()
		if wrong := x.Name() == "a"; errors.Is(err, layout.ErrChecksum) != wrong {
			t.Errorf("%s: %v", x.Name(), err)
		}
	}
}

// TestEmbeddedShards signs shards and their manifest, and mixes them with others.
func TestEmbeddedShards(t *testing.T) {
	signer, key := newKey(t)
	dirs := make([]string, 2)
	for i := range dirs {
		n := 10000 + 64*i
		in, err := loader.OpenBytes(modeltest.SafeTensors(
			modeltest.Tensor{Name: "a", DType: layout.F32, Shape: []int{10000}, Data: modeltest.Counting(4 * 10000)},
			modeltest.Tensor{Name: "b", DType: layout.F32, Shape: []int{n}, Data: modeltest.Counting(4 * n)}), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		dirs[i] = t.TempDir()
		for j, b := range write(t, in, &convert.Options{Signer: signer, ShardBytes: 42000}) {
			name := fmt.Sprintf("m-%05d-of-00002.apr", j)
			if j == 0 {
				name = "m.apr"
			}
			if err := os.WriteFile(filepath.Join(dirs[i], name), b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	open := func(dir string) error {
		m, err := loader.Open(filepath.Join(dir, "m.apr"), &loader.Options{Trust: key})
		if err != nil {
			return err
		}
		defer m.Close()
		if m.Len() != 2 || len(m.Files()) != 3 {
			t.Errorf("%d tensors in %d files", m.Len(), len(m.Files()))
		}
		return m.VerifyTrust(t.Context(), nil)
	}
	for _, dir := range dirs {
		if err := open(dir); err != nil {
			t.Fatal(err)
		}
	}
	swap := func(name string, content []byte) (restore func()) {
		path := filepath.Join(dirs[0], name)
		before, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, content, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.WriteFile(path, before, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	other, err := os.ReadFile(filepath.Join(dirs[1], "m-00002-of-00002.apr"))
	if err != nil {
		t.Fatal(err)
	}
	restore := swap("m-00002-of-00002.apr", other)
	if err := open(dirs[0]); err == nil {
		t.Error("the shard of another model passes")
	}
	restore()
	text, err := os.ReadFile(filepath.Join(dirs[0], "m.apr"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		bad := bytes.Clone(text)
		bad[i] ^= 1
		restore := swap("m.apr", bad)
		if err := open(dirs[0]); err == nil {
			t.Fatalf("byte %d of the manifest: passes", i)
		}
		restore()
	}
	unsigned := text[:bytes.LastIndex(text, []byte(`,`+"\n"+`  "signature"`))]
	restore = swap("m.apr", append(bytes.Clone(unsigned), "\n}\n"...))
	if err := open(dirs[0]); !errors.Is(err, trust.ErrUnsigned) {
		t.Error("an unsigned manifest:", err)
	}
	restore()
	if err := open(dirs[0]); err != nil {
		t.Error(err)
	}
}

// TestSignerChunks has sizes of chunks that no signature may have: nothing is written.
func TestSignerChunks(t *testing.T) {
	signer, _ := newKey(t)
	in, err := loader.OpenBytes(modeltest.SafeTensors(modeltest.Tensor{Name: "a", DType: layout.U8, Shape: []int{5}, Data: make([]byte, 5)}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for _, chunk := range []uint64{1, layout.MinChunk / 2, 100000, 2 * layout.MaxChunk} {
		signer.ChunkBytes = chunk
		out := filepath.Join(t.TempDir(), "m.apr")
		if _, err := convert.Write(t.Context(), in, out, &convert.Options{Signer: signer}); !errors.Is(err, layout.ErrLimit) {
			t.Errorf("%d: %v", chunk, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%d: a file was written", chunk)
		}
	}
}

func TestEmbeddedNeedsEd25519(t *testing.T) {
	key, err := trust.GenerateKey(trust.P256)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trust.NewEmbedded(key.Public()); !errors.Is(err, trust.ErrKey) {
		t.Error(err)
	}
	if _, err := trust.NewSigner(key); !errors.Is(err, trust.ErrKey) {
		t.Error(err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := signer.Sign([]byte("m"))
	if err != nil || !ed25519.Verify(public, []byte("m"), sig) {
		t.Error(err)
	}
	if strings.Contains(fmt.Sprintf("%+v", signer), fmt.Sprint([]byte(private))) {
		t.Error("a signer prints its key")
	}
}

// TestHeadReadOnce changes a scale in the head of a file that is open. What was verified stays.
func TestHeadReadOnce(t *testing.T) {
	signer, key := newKey(t)
	path := filepath.Join(t.TempDir(), "m.apr")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := apr2.NewWriter(f, slices.Values([]layout.Tensor{{Name: []byte("a"), DType: layout.I8, Shape: []int{4}}}), &apr2.Options{
		Signer: signer, Encrypter: encrypter(),
		Metadata: layout.Metadata{{Key: "quantization", Value: layout.Metadata{{Key: "scales", Value: layout.Metadata{{Key: "a", Value: json.Number("0.25")}}}}}},
	})
	if err == nil {
		err = errors.Join(w.WriteTensor([]byte{1, 2, 3, 4}), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := int64(bytes.Index(b, []byte("0.25")))
	for what, opts := range map[string]loader.Options{"key": *opens(testKey), "trust": {Trust: key}, "both": {Trust: key, Key: trust.Always(testKey)}} {
		for way, open := range map[string]func() (*loader.Model, error){
			"mapped": func() (*loader.Model, error) { return loader.Open(path, &opts) },
			"read": func() (*loader.Model, error) {
				unmapped := opts
				unmapped.NoMap = true
				return loader.Open(path, &unmapped)
			},
			"afar": func() (*loader.Model, error) { return loader.OpenReaderAt(t.Context(), f, int64(len(b)), &opts) },
		} {
			m, err := open()
			m = modeltest.Opened(t, m, err)
			if _, err := f.WriteAt([]byte("8.25"), at); err != nil {
				t.Fatal(err)
			}
			x, err := m.Tensor("a")
			if err != nil {
				t.Fatal(err)
			}
			if q, _, err := x.Scale(); err != nil || q.Scale != 0.25 {
				t.Errorf("%s, %s: scale %v, %v", what, way, q.Scale, err)
			}
			if _, err := f.WriteAt([]byte("0.25"), at); err != nil {
				t.Fatal(err)
			}
		}
	}
}
