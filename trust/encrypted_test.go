package trust_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
)

// testKey is the key of testdata/trust/encrypted.apr, and of files made here.
var testKey = func() encrypted.Key {
	k := make(encrypted.Key, encrypted.KeySize)
	for i := range k {
		k[i] = byte(i)
	}
	return k
}()

func opens(s encrypted.Secret) *loader.Options { return &loader.Options{Key: trust.Always(s)} }

// encrypter encrypts small blocks, so that small tensors have several.
func encrypter() *apr2.Encrypter {
	return &apr2.Encrypter{Secret: testKey, BlockSize: encrypted.MinBlock}
}

// counted is a model of float32 tensors with so many rows of 64 values.
func counted(t testing.TB, rows ...int) *loader.Model {
	t.Helper()
	var list []modeltest.Tensor
	for i, n := range rows {
		data := modeltest.Counting(256 * n)
		for j := range data {
			data[j] ^= byte(i)
		}
		list = append(list, modeltest.Tensor{Name: string(rune('a' + i)), DType: layout.F32, Shape: []int{n, 64}, Data: data})
	}
	m, err := loader.OpenBytes(modeltest.SafeTensors(list...), nil)
	return modeltest.Opened(t, m, err)
}

// encryptedModel writes a model of counted, encrypted.
func encryptedModel(t testing.TB, opts *convert.Options, rows ...int) []byte {
	t.Helper()
	return write(t, counted(t, rows...), opts)[0]
}

// fixtureSecret returns the key of the encrypted fixtures.
func fixtureSecret(t *testing.T) encrypted.Key {
	t.Helper()
	text, err := os.ReadFile("../testdata/trust/encrypted.key")
	if err != nil {
		t.Fatal(err)
	}
	secret, err := trust.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// sameTensors compares the elements of two models, read in several ways.
func sameTensors(t *testing.T, got, want *loader.Model) {
	t.Helper()
	for x := range want.Tensors() {
		y, err := got.Tensor(x.Name())
		if err != nil {
			t.Fatal(err)
		}
		b, err := x.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := y.WriteTo(&out); err != nil || !bytes.Equal(out.Bytes(), b) {
			t.Errorf("WriteTo of %s: %v", x.Name(), err)
		}
		part := make([]byte, len(b)-len(b)/3)
		if _, err := y.ReadAt(part, int64(len(b)/3)); err != nil || !bytes.Equal(part, b[len(b)/3:]) {
			t.Errorf("ReadAt of %s: %v", x.Name(), err)
		}
		if x.DType() == layout.F32 {
			f, g := make([]float32, x.Elements()), make([]float32, x.Elements())
			if err := errors.Join(x.Dequantize(f), y.Dequantize(g)); err != nil {
				t.Error(err)
			}
			for i := range f {
				if f[i] != g[i] && f[i] == f[i] {
					t.Fatalf("value %d of %s: %v, want %v", i, x.Name(), g[i], f[i])
				}
			}
		}
		if c, err := y.Bytes(); err != nil || !bytes.Equal(b, c) {
			t.Errorf("Bytes of %s: %v", x.Name(), err)
		}
		if y.Encoding().String() != "encrypted" || y.ZeroCopy() {
			t.Errorf("%s is %v", x.Name(), y.Encoding())
		}
	}
}

// TestEncryptedOfPython reads files that a Python script encrypted.
func TestEncryptedOfPython(t *testing.T) {
	key, err := trust.ReadPublicKey("../testdata/trust/encrypted.pub.pem")
	if err != nil {
		t.Fatal(err)
	}
	secret := fixtureSecret(t)
	passphrase, err := trust.NewPassphrase([]byte("открой"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := make([]float32, 60*50)
	for i := range numbers {
		numbers[i] = float32(i*37%512) / 8
	}
	exact, packed := make([]byte, 8192), make([]byte, 300*400)
	for i := range exact {
		exact[i] = byte(i * 11)
	}
	for i := range len(packed) - 65536 {
		packed[65536+i] = byte(i * i >> 3)
	}
	for _, tc := range []struct {
		file    string
		opts    *loader.Options
		tensors int
	}{
		{"encrypted.apr", &loader.Options{Key: trust.Always(secret), Trust: embedded(t, key)}, 5},
		{"encrypted.apr", &loader.Options{Key: trust.Always(secret), NoMap: true}, 5},
		{"encrypted.apr", &loader.Options{Key: trust.Always(secret), Trust: embedded(t, key), Private: true}, 5},
		{"passphrase.apr", opens(passphrase), 3},
	} {
		m, err := loader.Open("../testdata/trust/"+tc.file, tc.opts)
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		for name, want := range map[string][]byte{"a": modeltest.Float32s(numbers...), "b.ü": modeltest.Float32s(numbers[:7]...), "empty": {}, "exact": exact, "packed": packed} {
			x, err := m.Tensor(name)
			if errors.Is(err, loader.ErrNotFound) && read < 5 {
				continue
			}
			read++
			if b, err := x.Bytes(); err != nil || !bytes.Equal(b, want) {
				t.Errorf("%s of %s: %d bytes, %v", name, tc.file, len(b), err)
			}
		}
		report, err := m.Verify(t.Context(), nil)
		if err != nil || report.Err() != nil || read != tc.tensors {
			t.Errorf("%s: %v, %v; %d tensors", tc.file, err, report.Err(), read)
		}
		m.Close()
	}
	for _, path := range []string{"encrypted.apr", "passphrase.apr"} {
		m, err := loader.Open("../testdata/trust/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := m.Tensor("a")
		if _, err := x.Float32s(); !errors.Is(err, loader.ErrKey) {
			t.Errorf("without a key: %v", err)
		}
		if _, err := m.Metadata(); err != nil {
			t.Error(err)
		}
		m.Close()
	}
	wrong := map[string]struct {
		file   string
		secret encrypted.Secret
	}{"another key": {"encrypted.apr", make(encrypted.Key, 32)}, "a short key": {"encrypted.apr", encrypted.Key("short")}, "a passphrase for a key": {"encrypted.apr", passphrase},
		"a key for a passphrase": {"passphrase.apr", secret}, "a key for a plain file": {"signed.apr", secret}, "a key for SafeTensors": {"model/model.safetensors", secret}}
	for what, w := range wrong {
		m, err := loader.Open("../testdata/trust/"+w.file, opens(w.secret))
		if !errors.Is(err, loader.ErrKey) || strings.Contains(err.Error(), "short") || strings.Count(err.Error(), w.file) != 1 {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			m.Close()
		}
	}
}

// TestEncryptedWays reads what convert encrypts: compressed, signed, mapped, by system calls and from afar.
func TestEncryptedWays(t *testing.T) {
	source := counted(t, 100, 1, 333, 16)
	signer, key := newKey(t)
	for what, o := range map[string]*convert.Options{
		"plain":             {Encrypter: encrypter()},
		"compressed":        {Encrypter: encrypter(), Compress: convert.Fast},
		"signed":            {Encrypter: encrypter(), Signer: signer},
		"all":               {Encrypter: trust.NewEncrypter(testKey), Signer: signer, Compress: convert.High},
		"one block":         {Encrypter: &apr2.Encrypter{Secret: testKey, BlockSize: encrypted.MaxBlock, KeyID: "a \"name\""}},
		"in 32-byte places": {Encrypter: encrypter(), Align: 32},
	} {
		b := write(t, source, o)[0]
		path := modeltest.Write(t, "m.apr", b)
		opts := opens(testKey)
		if o.Signer != nil {
			opts.Trust = key
		}
		for _, open := range []func() (*loader.Model, error){
			func() (*loader.Model, error) { return loader.Open(path, opts) },
			func() (*loader.Model, error) { o := *opts; o.NoMap = true; return loader.Open(path, &o) },
			func() (*loader.Model, error) {
				return loader.OpenReaderAt(t.Context(), bytes.NewReader(b), int64(len(b)), opts)
			},
			func() (*loader.Model, error) {
				m, err := loader.OpenReaderAt(t.Context(), bytes.NewReader(b), int64(len(b)), opts)
				if err == nil {
					_, err = m.WarmAll(t.Context(), nil)
				}
				return m, err
			},
		} {
			m, err := open()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			sameTensors(t, m, source)
			if r, err := m.Verify(t.Context(), nil); err != nil || r.Err() != nil {
				t.Errorf("%s: %v, %v", what, err, r.Err())
			}
			m.Close()
		}
		// Without encryption again, through another conversion.
		m, err := loader.Open(path, opts)
		if err != nil {
			t.Fatal(err)
		}
		plain := write(t, m, &convert.Options{Compress: convert.AsStored})[0]
		m.Close()
		p, err := loader.OpenBytes(plain, nil)
		if err != nil {
			t.Fatal(err)
		}
		for x := range p.Tensors() {
			if compressed := x.Encoding() == layout.LZ4; compressed != (o.Compress != convert.NoCompression && x.Elements() > 64) {
				t.Errorf("%s: %s is %v", what, x.Name(), x.Encoding())
			}
		}
		p.Close()
	}
}

// TestEncryptedEveryByte flips a bit of every byte of an encrypted file.
func TestEncryptedEveryByte(t *testing.T) {
	signer, key := newKey(t)
	for _, signed := range []bool{false, true} {
		o, opts := &convert.Options{Encrypter: encrypter()}, opens(testKey)
		if signed {
			o.Signer, opts.Trust = signer, key
		}
		b := encryptedModel(t, o, 17, 1)
		good, err := loader.OpenBytes(bytes.Clone(b), nil)
		if err != nil {
			t.Fatal(err)
		}
		in := func(at uint64) string {
			for x := range good.Tensors() {
				if at >= x.Offset() && at < x.Offset()+x.StoredBytes() {
					return x.Name()
				}
			}
			return ""
		}
		data, step := uint64(binary.LittleEndian.Uint32(b[28:])), 1
		if testmode.Brief() {
			step = 7
		}
		for i := 0; i < len(b)-footer; i += step {
			b[i] ^= 1 << (i % 8)
			at := uint64(i)
			m, err := loader.OpenBytes(b, opts)
			switch name := in(at); {
			case err != nil && at < data:
			case err != nil || at < data:
				t.Fatalf("byte %d: %v", i, err)
			default:
				for x := range m.Tensors() {
					_, err := x.WriteTo(io.Discard)
					if bad := err != nil; bad != (x.Name() == name) && !signed {
						t.Fatalf("byte %d in %q: %s: %v", i, name, x.Name(), err)
					}
					if x.Name() == name && (!errors.Is(err, layout.ErrChecksum) || strings.Count(err.Error(), `tensor "`+name+`"`) != 1 || !signed && !strings.Contains(err.Error(), fmt.Sprintf("block %d of", (at-x.Offset())/(encrypted.MinBlock+encrypted.TagSize)))) {
						t.Fatalf("byte %d: %v", i, err)
					}
				}
				m.Close()
			}
			b[i] ^= 1 << (i % 8)
		}
		good.Close()
		if err := readAll(b, opts); err != nil {
			t.Error(err)
		}
	}
}

// TestEncryptedRandom flips bits at random places of a large file: the block is wrong, and no other.
func TestEncryptedRandom(t *testing.T) {
	b := encryptedModel(t, &convert.Options{Encrypter: encrypter()}, 1<<14, 1<<14)
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
	const block = encrypted.MinBlock
	for range times {
		name := []string{"a", "b"}[random.IntN(2)]
		x, err := good.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		place := random.Uint64N(x.StoredBytes())
		b[x.Offset()+place] ^= 16
		m, err := loader.OpenBytes(b, opens(testKey))
		if err != nil {
			t.Fatal(err)
		}
		y, err := m.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		number := place / (block + encrypted.TagSize)
		if _, err := y.ReadAt(make([]byte, 1), int64(number*block)); !errors.Is(err, layout.ErrChecksum) || !strings.Contains(err.Error(), fmt.Sprintf(`tensor %q: apr2: offset %d: encryption: block %d of`, name, x.Offset()+number*(block+encrypted.TagSize), number)) {
			t.Fatalf("byte %d: %v", place, err)
		}
		if other := (number + 1) % (x.RawBytes() / block); true {
			if _, err := y.ReadAt(make([]byte, 1), int64(other*block)); err != nil {
				t.Fatalf("byte %d, block %d: %v", place, other, err)
			}
		}
		m.Close()
		b[x.Offset()+place] ^= 16
	}
}

// TestEncryptedTampered has encrypted files changed with intent.
func TestEncryptedTampered(t *testing.T) {
	good := encryptedModel(t, &convert.Options{Encrypter: encrypter()}, 100, 100)
	again := encryptedModel(t, &convert.Options{Encrypter: encrypter()}, 100, 100) // the same under another salt
	le := binary.LittleEndian
	data := le.Uint32(good[28:])
	m, err := loader.OpenBytes(bytes.Clone(good), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	x, _ := m.Tensor("a")
	y, _ := m.Tensor("b")
	a, b, each := x.Offset(), y.Offset(), uint64(encrypted.MinBlock+encrypted.TagSize)
	change := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	swap := func(b []byte, p, q, n uint64) {
		one := bytes.Clone(b[p:][:n])
		copy(b[p:][:n], b[q:][:n])
		copy(b[q:][:n], one)
	}
	replace := func(old, new string) []byte {
		if !bytes.Contains(good, []byte(old)) || len(old) != len(new) {
			t.Fatalf("%q for %q", new, old)
		}
		return bytes.Replace(bytes.Clone(good), []byte(old), []byte(new), 1)
	}
	for what, bad := range map[string][]byte{
		"blocks swapped":       change(func(f []byte) { swap(f, a, a+each, each) }),
		"blocks between":       change(func(f []byte) { swap(f, a, b, each) }),
		"tensors swapped":      change(func(f []byte) { swap(f, a, b, x.StoredBytes()) }),
		"a block repeated":     change(func(f []byte) { copy(f[a+each:][:each], f[a:][:each]) }),
		"data of another file": append(bytes.Clone(good[:data]), again[le.Uint32(again[28:]):]...),
		"head of another file": append(bytes.Clone(again[:le.Uint32(again[28:])]), good[data:]...),
		"flag cleared":         change(func(b []byte) { le.PutUint32(b[8:], le.Uint32(b[8:])&^16) }),
		"minor 0":              change(func(b []byte) { le.PutUint16(b[6:], 0) }),
		"names swapped": change(func(b []byte) {
			i := bytes.Index(b, []byte("\x01\x00a\x00"))
			j := bytes.Index(b, []byte("\x01\x00b\x00"))
			b[i+2], b[j+2] = 'b', 'a'
		}),
		"key in capitals":    replace(`"encryption"`, `"Encryption"`),
		"member in capitals": replace(`"salt"`, `"Salt"`),
		"unknown algorithm":  replace(`"AES-256-GCM"`, `"AES-128-GCM"`),
		"unknown kdf":        replace(`"HKDF-SHA256"`, `"HKDF-SHA512"`),
		"small blocks":       replace(`"block_size":4096`, `"block_size":2048`),
		"other blocks":       replace(`"block_size":4096`, `"block_size":8192`),
		"sections moved":     change(func(b []byte) { le.PutUint32(b[12:], 33) }),
		"cut":                good[:len(good)-1000],
		"extended":           append(bytes.Clone(good), make([]byte, 64)...),
		"no file":            []byte("APR2"),
		"nothing":            {},
	} {
		if err := readAll(bad, opens(testKey)); err == nil && what != "extended" {
			t.Errorf("%s: passes", what)
		}
	}
	if err := readAll(good, opens(testKey)); err != nil {
		t.Error(err)
	}
	// Without a key, too, flag and metadata must agree.
	for _, file := range [][]byte{bytes.Clone(good), encryptedModel(t, &convert.Options{Encrypter: encrypter()})} {
		le.PutUint32(file[8:], le.Uint32(file[8:])&^16)
		if m, err := loader.OpenBytes(file, nil); !errors.Is(err, layout.ErrInvalid) || !strings.Contains(err.Error(), "encryption: ") {
			t.Errorf("flag cleared: %v", err)
			if err == nil {
				m.Close()
			}
		}
	}
}

// TestEncryptedShards encrypts shards and their manifest, and mixes them with others.
func TestEncryptedShards(t *testing.T) {
	phrase, err := trust.NewPassphrase([]byte("open"))
	if err != nil {
		t.Fatal(err)
	}
	weak := &apr2.Encrypter{Secret: phrase, Argon2: &encrypted.Argon2{Time: 1, MemoryKiB: 64, Threads: 1}}
	source := counted(t, 200, 200)
	var dirs [3]string
	for i, s := range []*apr2.Encrypter{weak, weak, nil} {
		dirs[i] = t.TempDir()
		for j, b := range write(t, source, &convert.Options{Encrypter: s, ShardBytes: 60000}) {
			name := fmt.Sprintf("m-%05d-of-00002.apr", j)
			if j == 0 {
				name = "m.apr"
			}
			if err := os.WriteFile(filepath.Join(dirs[i], name), b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	open := func(opts *loader.Options) error {
		m, err := loader.Open(filepath.Join(dirs[0], "m.apr"), opts)
		if err != nil {
			return err
		}
		defer m.Close()
		if opts != nil {
			sameTensors(t, m, source)
		}
		return nil
	}
	asked := 0
	counts := &loader.Options{Key: func(context.Context, string) (loader.Secret, error) { asked++; return phrase, nil }}
	if err := errors.Join(open(counts), open(nil)); err != nil || asked != 1 {
		t.Fatalf("%v; asked %d times", err, asked)
	}
	with := func(name string, b []byte, f func()) {
		t.Helper()
		path := filepath.Join(dirs[0], name)
		before, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, b, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		f()
		if err := os.WriteFile(path, before, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	file := func(dir int, name string) []byte {
		b, err := os.ReadFile(filepath.Join(dirs[dir], name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const second = "m-00002-of-00002.apr"
	for _, dir := range []int{1, 2} {
		with(second, file(dir, second), func() {
			if open(opens(phrase)) == nil || open(nil) == nil {
				t.Error("the shard of another model passes")
			}
		})
		with("m.apr", file(dir, "m.apr"), func() {
			if open(opens(phrase)) == nil || open(nil) == nil {
				t.Error("the manifest of another model passes")
			}
		})
	}
	text := file(0, "m.apr")
	for i := range text {
		bad := bytes.Clone(text)
		bad[i] ^= 1
		with("m.apr", bad, func() {
			if open(opens(phrase)) == nil {
				t.Errorf("byte %d of the manifest: passes", i)
			}
		})
	}
	if err := open(opens(phrase)); err != nil {
		t.Error(err)
	}
}

// counter counts reads and their bytes.
type counter struct {
	io.ReaderAt
	reads, bytes atomic.Int64
}

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	c.reads.Add(1)
	c.bytes.Add(int64(len(p)))
	return c.ReaderAt.ReadAt(p, off)
}

// TestEncryptedFromAfar counts requests: a row is one, of one block, and so are neighbours that are warmed.
func TestEncryptedFromAfar(t *testing.T) {
	b := encryptedModel(t, &convert.Options{Encrypter: trust.NewEncrypter(testKey)}, 5000, 10, 1000, 3)
	r := &counter{ReaderAt: bytes.NewReader(b)}
	m, err := loader.OpenReaderAt(t.Context(), r, int64(len(b)), opens(testKey))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	x, _ := m.Tensor("a")
	row := make([]float32, 64)
	used := func(f func() error) (reads, bytes int64) {
		n, k := r.reads.Load(), r.bytes.Load()
		if err := f(); err != nil {
			t.Error(err)
		}
		return r.reads.Load() - n, r.bytes.Load() - k
	}
	if n, k := used(func() error { return x.DequantizeRows(row, 4000, 1) }); n != 1 || k != encrypted.DefaultBlock+encrypted.TagSize {
		t.Errorf("a row: %d reads of %d bytes", n, k)
	}
	rows := make([]float32, 64*1000)
	if n, k := used(func() error { return x.DequantizeRows(rows, 1000, 1000) }); n != 1 || k > 6*(encrypted.DefaultBlock+encrypted.TagSize) {
		t.Errorf("rows of five blocks: %d reads of %d bytes", n, k)
	}
	if n, k := used(func() error { _, err := m.WarmAll(t.Context(), nil); return err }); n != 1 || k > int64(len(b)) {
		t.Errorf("all: %d reads of %d bytes", n, k)
	}
	sum := sha256.New()
	if n, _ := used(func() error { _, err := x.WriteTo(sum); return err }); n != 0 {
		t.Errorf("what is warm: %d reads", n)
	}
	if s := m.Stats(); s.HeapBytes != 256*(5000+10+1000+3) {
		t.Errorf("%d bytes in the cache", s.HeapBytes)
	}
	// A wrong block in a warmed range names its tensor.
	y, _ := m.Tensor("c")
	bad := bytes.Clone(b)
	bad[y.Offset()+100_000] ^= 1
	n, err := loader.OpenReaderAt(t.Context(), bytes.NewReader(bad), int64(len(b)), opens(testKey))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if _, err := n.WarmAll(t.Context(), nil); err == nil || strings.Count(err.Error(), `tensor "c"`) != 1 || !strings.Contains(err.Error(), "block 1 of 4") {
		t.Error(err)
	}
}

// TestEncryptedOnce has many goroutines ask for one cold tensor: it is decrypted once for the cache.
func TestEncryptedOnce(t *testing.T) {
	b := encryptedModel(t, &convert.Options{Encrypter: encrypter()}, 1000, 5)
	m, err := loader.OpenBytes(b, opens(testKey))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	x, _ := m.Tensor("a")
	var wg sync.WaitGroup
	row := make([]float32, 64*1000)
	if err := x.Dequantize(row); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		wg.Go(func() {
			got := make([]float32, 64)
			if err := x.DequantizeRows(got, uint64(i*9), 1); err != nil || got[0] != row[64*9*i] {
				t.Error(i, err, got[0])
			}
			f, err := x.Bytes()
			if err != nil || len(f) != 256_000 {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s := m.Stats(); s.Expansions != 1 || s.HeapBytes != 256_000 {
		t.Errorf("%+v", s)
	}
}

// TestEncryptedMatVec multiplies encrypted rows.
func TestEncryptedMatVec(t *testing.T) {
	data := make([]byte, 0, 256*300)
	for i := range 64 * 300 { // numbers whose blocks have scales of F16
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(i%251)-125))
	}
	m, err := loader.OpenBytes(modeltest.SafeTensors(modeltest.Tensor{Name: "a", DType: layout.F32, Shape: []int{300, 64}, Data: data}), nil)
	source := modeltest.Opened(t, m, err)
	for _, d := range []layout.DType{layout.F32, layout.Q8_0} {
		o := &convert.Options{DType: d, PlainF8: true, All: true}
		plain, err := loader.OpenBytes(write(t, source, o)[0], nil)
		if err != nil {
			t.Skip(err)
		}
		defer plain.Close()
		p, _ := plain.Tensor("a")
		vector := make([]float32, 64)
		for i := range vector {
			vector[i] = float32(i%5) - 2
		}
		want, got := make([]float32, 300), make([]float32, 300)
		if err := p.MatVec(t.Context(), want, vector); err != nil {
			t.Fatal(err)
		}
		o.Encrypter = encrypter()
		m, err := loader.OpenBytes(write(t, source, o)[0], opens(testKey))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		x, _ := m.Tensor("a")
		if err := x.MatVec(t.Context(), got, vector); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if want[i] != got[i] && want[i] == want[i] {
				t.Fatalf("%v, row %d: %v, want %v", d, i, got[i], want[i])
			}
		}
	}
}

// TestSecrets reads secrets from files and the environment. No error repeats one.
func TestSecrets(t *testing.T) {
	const digits = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, text := range []string{digits, digits + "\n", digits + "\r\n", strings.ToUpper(digits), string(testKey)} {
		if k, err := trust.ReadKey(write(text)); err != nil || !bytes.Equal(k, testKey) {
			t.Errorf("%q: %x, %v", text, k, err)
		}
	}
	for _, text := range []string{"", "hunter2", digits + "\n\n", " " + digits, digits[1:], digits[2:] + "zz"} {
		if _, err := trust.ReadKey(write(text)); !errors.Is(err, trust.ErrKey) || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	key := func(text string) []byte {
		p, err := trust.ReadPassphrase(write(text))
		if err != nil {
			t.Fatal(err)
		}
		k, err := p.Key(t.Context(), &encrypted.Argon2{Time: 1, MemoryKiB: 8, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if want := key("a b"); !bytes.Equal(want, key("a b\n")) || !bytes.Equal(want, key("a b\r\n")) || bytes.Equal(want, key("a b\n\n")) || bytes.Equal(want, key("a b ")) {
		t.Error("one line end, and no more, is not part of a passphrase")
	}
	if _, err := trust.ReadPassphrase(write("\n")); !errors.Is(err, trust.ErrKey) {
		t.Error(err)
	}
	t.Setenv(trust.KeyVariable, digits)
	if s, from, err := trust.EnvironmentSecret(); err != nil || from != trust.KeyVariable || !bytes.Equal(s.(encrypted.Key), testKey) {
		t.Error(s, from, err)
	}
	t.Setenv(trust.PassphraseVariable, "x")
	if _, _, err := trust.EnvironmentSecret(); !errors.Is(err, trust.ErrKey) {
		t.Error(err)
	}
	t.Setenv(trust.KeyVariable, "hunter2")
	t.Setenv(trust.PassphraseVariable, "")
	if _, _, err := trust.EnvironmentSecret(); !errors.Is(err, trust.ErrKey) || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
