package bench

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
)

// BenchmarkTrust measures what verification costs: the first touch of a cold model against bare SHA-256 of
// the same bytes on all cores, a view after its first touch, opening, and decrypting.
func BenchmarkTrust(b *testing.B) {
	b.Run("what=first", benchmarkFirstTouch)
	b.Run("what=view", benchmarkTouched)
	b.Run("what=open", benchmarkTrustedOpen)
	b.Run("what=decrypt", benchmarkDecrypt)
}

// signedFile writes a SafeTensors file and a bundle about it. It returns its path and what is signed.
func signedFile(b *testing.B, opts *trust.SignOptions, tensors ...modeltest.Tensor) (path string, s *trust.Statement) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "m.safetensors")
	if err := os.WriteFile(path, modeltest.SafeTensors(tensors...), 0o666); err != nil {
		b.Fatal(err)
	}
	key, err := trust.GenerateKey(trust.P256)
	if err != nil {
		b.Fatal(err)
	}
	bundle := filepath.Join(b.TempDir(), "m.sig")
	if err := trust.Sign(b.Context(), path, bundle, key, opts); err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile(bundle)
	if err != nil {
		b.Fatal(err)
	}
	parsed, err := trust.ParseBundle(text)
	if err == nil {
		s, err = parsed.VerifyKey(key.Public())
	}
	if err != nil {
		b.Fatal(err)
	}
	return path, s
}

func benchmarkFirstTouch(b *testing.B) {
	const n = 256 << 20
	data := modeltest.Counting(n)
	path, s := signedFile(b, nil, modeltest.Tensor{Name: "x", DType: layout.F32, Shape: []int{n / 4}, Data: data})
	b.Run("by=loader", func(b *testing.B) {
		b.SetBytes(n)
		for b.Loop() {
			touch(b, path, &loader.Options{Trust: s})
		}
	})
	b.Run("by=sha256", func(b *testing.B) {
		b.SetBytes(n)
		for b.Loop() {
			var wg sync.WaitGroup
			workers := runtime.GOMAXPROCS(0)
			for i := range workers {
				wg.Go(func() { sha256.Sum256(data[i*n/workers : (i+1)*n/workers]) })
			}
			wg.Wait()
		}
	})
}

func touch(b *testing.B, path string, opts *loader.Options) {
	m, err := loader.Open(path, opts)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	x, err := m.Tensor("x")
	if err == nil {
		_, err = x.Bytes()
	}
	if err != nil {
		b.Fatal(err)
	}
}

func benchmarkTouched(b *testing.B) {
	path, s := signedFile(b, nil, modeltest.Tensor{Name: "x", DType: layout.F32, Shape: []int{1 << 20}, Data: modeltest.Counting(4 << 20)})
	for _, c := range []struct {
		name string
		opts loader.Options
	}{{"no", loader.Options{}}, {"yes", loader.Options{Trust: s}}} {
		m, err := loader.Open(path, &c.opts)
		if err != nil {
			b.Fatal(err)
		}
		defer m.Close()
		x, err := m.Tensor("x")
		if err != nil {
			b.Fatal(err)
		}
		b.Run("trust="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.Bytes(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchmarkTrustedOpen opens models of 2,000 tensors: an APR2 file without a signature and with its
// own, and a SafeTensors file without a bundle and with one.
func benchmarkTrustedOpen(b *testing.B) {
	var tensors []modeltest.Tensor
	for i := range 2000 {
		tensors = append(tensors, modeltest.Tensor{Name: fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i), DType: layout.F32, Shape: []int{64, 64}, Data: modeltest.Counting(4 * 64 * 64)})
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	signer, err := trust.NewSigner(private)
	if err != nil {
		b.Fatal(err)
	}
	key, err := trust.NewEmbedded(public)
	if err != nil {
		b.Fatal(err)
	}
	path, bundle := signedFile(b, nil, tensors...)
	pathSmall, small := signedFile(b, &trust.SignOptions{ChunkBytes: 256 << 10}, tensors...)
	in := open(b, path)
	dir := b.TempDir()
	for name, s := range map[string]convert.Options{"plain.apr": {}, "signed.apr": {Signer: signer}} {
		if _, err := convert.Write(b.Context(), in, filepath.Join(dir, name), &s); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, path string
		trust      loader.Trust
	}{
		{"format=apr2/signature=none", filepath.Join(dir, "plain.apr"), nil},
		{"format=apr2/signature=own", filepath.Join(dir, "signed.apr"), key},
		{"format=safetensors/signature=none", path, nil},
		{"format=safetensors/signature=bundle/chunk=4MiB", path, bundle},
		{"format=safetensors/signature=bundle/chunk=256KiB", pathSmall, small},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				m, err := loader.Open(c.path, &loader.Options{Trust: c.trust})
				if err != nil {
					b.Fatal(err)
				}
				m.Close()
			}
		})
	}
}

// benchmarkDecrypt reads 256 MiB of an encrypted file into memory that is there, and opens as many blocks with the
// standard library's AES-GCM alone, on all cores.
func benchmarkDecrypt(b *testing.B) {
	const n, block = 256 << 20, encrypted.DefaultBlock
	key := make(encrypted.Key, encrypted.KeySize)
	in, err := loader.OpenBytes(modeltest.SafeTensors(modeltest.Tensor{Name: "x", DType: layout.U8, Shape: []int{n}, Data: make([]byte, n)}), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	path := filepath.Join(b.TempDir(), "m.apr")
	if _, err := convert.Write(b.Context(), in, path, &convert.Options{Encrypter: trust.NewEncrypter(key)}); err != nil {
		b.Fatal(err)
	}
	into := make([]byte, n)
	m, err := loader.Open(path, &loader.Options{Key: trust.Always(key)})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	x, err := m.Tensor("x")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("by=loader", func(b *testing.B) {
		b.SetBytes(n)
		for b.Loop() {
			if _, err := x.ReadAt(into, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	c, err := aes.NewCipher(key)
	if err != nil {
		b.Fatal(err)
	}
	gcm, err := cipher.NewGCM(c)
	if err != nil {
		b.Fatal(err)
	}
	nonce := make([]byte, gcm.NonceSize())
	stored := make([]byte, 0, n/block*(block+encrypted.TagSize))
	for off := 0; off < n; off += block {
		stored = gcm.Seal(stored, nonce, into[off:][:block], nil)
	}
	b.Run("by=gcm", func(b *testing.B) {
		b.SetBytes(n)
		for b.Loop() {
			var wg sync.WaitGroup
			workers := runtime.GOMAXPROCS(0)
			for w := range workers {
				wg.Go(func() {
					for i := w; i < n/block; i += workers {
						if _, err := gcm.Open(into[i*block:i*block], nonce, stored[i*(block+encrypted.TagSize):][:block+encrypted.TagSize], nil); err != nil {
							panic(err)
						}
					}
				})
			}
			wg.Wait()
		}
	})
}
