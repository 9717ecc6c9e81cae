package apr2

import (
	"bytes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
)

// recorder notes the nonces that it encrypts with.
type recorder struct {
	cipher.AEAD
	mu     sync.Mutex
	nonces map[[12]byte]bool
	t      *testing.T
}

func (r *recorder) Seal(dst, nonce, plain, entry []byte) []byte {
	r.mu.Lock()
	n := [12]byte(nonce)
	if r.nonces[n] {
		r.t.Errorf("nonce %x a second time", n)
	}
	r.nonces[n] = true
	r.mu.Unlock()
	return r.AEAD.Seal(dst, nonce, plain, entry)
}

// TestNonces writes 100,000 tensors and one of 10,000 blocks, and has compression rolled back: no nonce comes twice
// under one key, and no two files have one salt.
func TestNonces(t *testing.T) {
	small, blocks := 100_000, 10_000
	if testmode.Brief() {
		small, blocks = 500, 500
	}
	var list []layout.Tensor
	for i := range small {
		list = append(list, layout.Tensor{Name: fmt.Appendf(nil, "%d", i), DType: layout.U8, Shape: []int{i % 3}})
	}
	list = append(list, layout.Tensor{Name: []byte("large"), DType: layout.U8, Shape: []int{blocks * encrypted.MinBlock}})
	for i := range 20 {
		list = append(list, layout.Tensor{Name: fmt.Appendf(nil, "rolled %d", i), DType: layout.U8, Shape: []int{10000}, Encoding: layout.LZ4})
	}
	salts := make(map[string]bool)
	for range 2 {
		f, err := os.Create(filepath.Join(t.TempDir(), "m.apr"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w, err := NewWriter(f, slices.Values(list), &Options{Encrypter: &Encrypter{Secret: make(encrypted.Key, encrypted.KeySize), BlockSize: encrypted.MinBlock}})
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{AEAD: w.encrypt.cipher.AEAD, nonces: make(map[[12]byte]bool), t: t}
		w.encrypt.cipher.AEAD = r
		want := 1 // the check
		for i := range list {
			n := list[i].Shape[0]
			data := make([]byte, n)
			write := func(dst io.Writer) error {
				for at := 0; at < n; at += 3000 {
					if _, err := dst.Write(data[at:min(n, at+3000)]); err != nil {
						return err
					}
				}
				return nil
			}
			if list[i].Encoding == layout.LZ4 {
				if err := w.WriteBlocksFunc(func(dst io.Writer) error { write(dst); return ErrRollback }); err != ErrRollback {
					t.Fatal(err)
				}
			}
			if err := w.WriteTensorFunc(write); err != nil {
				t.Fatal(err)
			}
			want += (n + encrypted.MinBlock - 1) / encrypted.MinBlock
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if len(r.nonces) != want {
			t.Errorf("%d nonces, want %d", len(r.nonces), want)
		}
		b := make([]byte, 1<<12)
		f.ReadAt(b, 0)
		_, salt, _ := bytes.Cut(b, []byte(`"salt":"`))
		if len(salt) < 44 || salts[string(salt[:44])] {
			t.Error("a salt twice")
		}
		salts[string(salt[:44])] = true
	}
}

// TestEncrypterRefuses gives a Writer what it cannot encrypt.
func TestEncrypterRefuses(t *testing.T) {
	key := make(encrypted.Key, encrypted.KeySize)
	list := []layout.Tensor{{Name: []byte("a"), DType: layout.U8, Shape: []int{5}, Encoding: layout.LZ4}}
	begin := func(s *Encrypter, md layout.Metadata) (*Writer, error) {
		f, err := os.Create(filepath.Join(t.TempDir(), "m.apr"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return NewWriter(f, slices.Values(list), &Options{Encrypter: s, Metadata: md})
	}
	for want, s := range map[error]*Encrypter{
		layout.ErrInvalid: {Secret: key, BlockSize: 5000},
		layout.ErrKey:     {Secret: key[:31]},
		layout.ErrLimit:   {Secret: key, KeyID: string(make([]byte, 300))},
	} {
		if _, err := begin(s, nil); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if w, err := begin(&Encrypter{Secret: key}, nil); err != nil {
		t.Error(err)
	} else {
		times := 0
		if err := w.WriteBlocksFunc(func(dst io.Writer) error {
			if times++; times > 1 {
				return ErrRollback
			}
			return nil
		}); !errors.Is(err, layout.ErrInvalid) {
			t.Errorf("rolled back once encrypted: %v", err)
		}
	}
	w, err := NewWriter(new(bytes.Buffer), slices.Values[[]layout.Tensor](nil), &Options{Encrypter: &Encrypter{Secret: key}})
	if err == nil {
		err = w.Close()
	}
	if !errors.Is(err, layout.ErrUnsupported) {
		t.Errorf("a file that cannot be read again: %v", err)
	}
	list[0] = layout.Tensor{Name: []byte("a"), DType: layout.F64, Shape: []int{1}} // which needs minor version 1
	if _, err := begin(nil, layout.Metadata{{Key: "encryption", Value: "none"}}); !errors.Is(err, layout.ErrInvalid) {
		t.Errorf("the key without encryption: %v", err)
	}
}
