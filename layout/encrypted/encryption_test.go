package encrypted

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

func encryptionText(t testing.TB, block uint64, argon2 *Argon2) []byte {
	t.Helper()
	e, err := NewEncryption(block, argon2, "a key")
	if err != nil {
		t.Fatal(err)
	}
	text, err := layout.Metadata{{Key: "a", Value: "b"}, {Key: "encryption", Value: e.Metadata()}}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestParseEncryption reads what was written, and refuses one thing after the other. Nothing is derived for it.
func TestParseEncryption(t *testing.T) {
	good := string(encryptionText(t, DefaultBlock, NewArgon2()))
	k, err := Parse([]byte(good), layout.APR2, 0, nil)
	if err != nil || k.Encryption.KDF != Argon2id || k.Encryption.Argon2.MemoryKiB != 65536 || k.Encryption.KeyID != "a key" || k.Encryption.BlockSize != DefaultBlock {
		t.Fatalf("%+v, %v", k.Encryption, err)
	}
	zeros := base64.StdEncoding.EncodeToString(make([]byte, TagSize))
	for _, c := range []struct {
		old, new, says string
		err            error
	}{
		{"AES-256-GCM", "AES-128-GCM", "algorithm", layout.ErrUnsupported},
		{Argon2id, "scrypt", "kdf", layout.ErrUnsupported},
		{Argon2id, HKDF, "argon2", layout.ErrInvalid},
		{`"argon2"`, `"argon3"`, "argon2", layout.ErrInvalid},
		{`"time":3`, `"time":0`, "argon2.time", layout.ErrLimit},
		{`"time":3`, `"time":17`, "argon2.time", layout.ErrLimit},
		{`"threads":4`, `"threads":17`, "argon2.threads", layout.ErrLimit},
		{`"threads":4`, `"threads":"4"`, "integer", layout.ErrInvalid},
		{`"time":3,"memory_kib":65536`, `"time":5,"memory_kib":262144`, "argon2.time 5 times", layout.ErrLimit},
		{`"time":3,"memory_kib":65536`, `"time":16,"memory_kib":65537`, "argon2.time 16 times", layout.ErrLimit},
		{`"memory_kib":65536`, `"memory_kib":31`, "argon2.memory_kib", layout.ErrLimit},
		{`"memory_kib":65536`, `"memory_kib":262145`, "argon2.memory_kib", layout.ErrLimit},
		{`"memory_kib":65536`, `"memory_kib":4294967296`, "argon2.memory_kib", layout.ErrLimit},
		{`"memory_kib":65536,`, ``, "memory_kib", layout.ErrInvalid},
		{`"block_size":65536`, `"block_size":2048`, "block_size", layout.ErrInvalid},
		{`"block_size":65536`, `"block_size":2097152`, "block_size", layout.ErrInvalid},
		{`"block_size":65536`, `"block_size":65535`, "block_size", layout.ErrInvalid},
		{`"block_size":65536,`, ``, "block_size", layout.ErrInvalid},
		{`"salt"`, `"Salt"`, "salt", layout.ErrInvalid},
		{`"check":"A`, `"check":"\u0041`, "escapes", layout.ErrInvalid},
		{zeros, zeros[:20] + "AB==", "check", layout.ErrInvalid}, // not canonical
		{zeros, zeros[:22], "check", layout.ErrInvalid},
		{zeros, zeros + "\\n", "check", layout.ErrInvalid},
		{`"key_id":"a key"`, `"key_id":"` + strings.Repeat("x", 257) + `"`, "key_id", layout.ErrLimit},
		{`"key_id":"a key"`, `"kdf":"Argon2id"`, "kdf", layout.ErrDuplicate},
		{`"encryption":{`, `"encryption":["`, "", layout.ErrInvalid},
		{`"a":"b"`, `"encryption":"none"`, "", layout.ErrInvalid},
	} {
		bad := strings.Replace(good, c.old, c.new, 1)
		if bad == good {
			t.Errorf("%s is not there", c.old)
		}
		var fe *layout.FormatError
		if _, err := Parse([]byte(bad), layout.APR2, 100, nil); !errors.Is(err, c.err) && c.says != "" || !errors.As(err, &fe) || fe.Offset < 100 || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s for %s: %v", c.new, c.old, err)
		}
	}
	if _, err := Parse([]byte(strings.Replace(good, `"memory_kib":65536`, `"memory_kib":262145`, 1)), layout.APR2, 0, &layout.Limits{Argon2KiB: 1 << 20}); err != nil {
		t.Error(err)
	}
	if _, err := Parse([]byte(good), layout.Manifest, 0, nil); !errors.Is(err, layout.ErrInvalid) {
		t.Errorf("block_size in a manifest: %v", err)
	}
}

// TestParseRetains checks that what Parse returns, which lives as long as a model, does not make the text do so too.
func TestParseRetains(t *testing.T) {
	const size = 32 << 20
	text := bytes.Replace(encryptionText(t, DefaultBlock, nil), []byte(`"b"`), []byte(`"`+strings.Repeat("b", size)+`"`), 1)
	before := heapBytes()
	k, err := Parse(text, layout.APR2, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if more := heapBytes() - before; more > size/2 {
		t.Errorf("%d bytes of memory for the keys in a text of %d", more, len(text))
	}
	runtime.KeepAlive(k)
	runtime.KeepAlive(text)
}

// heapBytes returns how many bytes of memory are in use after a collection.
func heapBytes() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestSizes converts between content and what is stored.
func TestSizes(t *testing.T) {
	for _, n := range []uint64{0, 1, MinBlock - 1, MinBlock, MinBlock + 1, 3 * MinBlock, 1<<40 + 5} {
		if c, ok := ContentBytes(StoredBytes(n, MinBlock), MinBlock); !ok || c != n {
			t.Errorf("%d became %d, %t", n, c, ok)
		}
	}
	for _, n := range []uint64{1, 15, 16, MinBlock + TagSize + 1, MinBlock + 2*TagSize} {
		if _, ok := ContentBytes(n, MinBlock); ok {
			t.Errorf("%d bytes pass", n)
		}
	}
}

// TestCipher opens blocks under their own names only.
func TestCipher(t *testing.T) {
	cipherOf := func(key byte) *Cipher {
		e, err := NewEncryption(DefaultBlock, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		e.Salt = make([]byte, 32)
		c, err := e.Cipher(t.Context(), Key(bytes.Repeat([]byte{key}, KeySize)))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c, n := cipherOf(1), new(Nonce)
	plain, entry := []byte("content"), []byte("entry")
	b := c.Seal(n, nil, plain, entry, 1, 2)
	if got, ok := cipherOf(1).Open(n, nil, b, entry, 1, 2); !ok || !bytes.Equal(got, plain) {
		t.Fatal("does not open")
	}
	for what, open := range map[string]func() bool{
		"key":     func() bool { _, ok := cipherOf(2).Open(n, nil, b, entry, 1, 2); return ok },
		"entry":   func() bool { _, ok := c.Open(n, nil, b, []byte("Entry"), 1, 2); return ok },
		"ordinal": func() bool { _, ok := c.Open(n, nil, b, entry, 0, 2); return ok },
		"block":   func() bool { _, ok := c.Open(n, nil, b, entry, 1, 1<<32+2); return ok },
		"length":  func() bool { _, ok := c.Open(n, nil, b[:len(b)-1], entry, 1, 2); return ok },
		"nothing": func() bool { _, ok := c.Open(n, nil, nil, entry, 1, 2); return ok },
	} {
		if open() {
			t.Errorf("another %s opens it", what)
		}
	}
	dst := make([]byte, 0, 64)
	if allocs := testing.AllocsPerRun(100, func() { c.Open(n, dst, b, entry, 1, 2); c.Seal(n, dst, plain, entry, 1, 3) }); allocs > 0 {
		t.Errorf("%v allocations a block", allocs)
	}
}

// FuzzEncryption parses metadata of strangers. What parses is within its limits, and has its check in the text.
func FuzzEncryption(f *testing.F) {
	f.Add(encryptionText(f, DefaultBlock, NewArgon2()))
	f.Add(encryptionText(f, 0, nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, format := range []layout.Format{layout.APR2, layout.Manifest} {
			k, err := Parse(text, format, 0, nil)
			e := k.Encryption
			if err != nil || e == nil {
				continue
			}
			if len(e.Salt) != 32 || len(e.Check) != TagSize || text[e.check-1] != '"' || text[e.check+checkChars] != '"' || (format == layout.APR2) != blockOK(e.BlockSize) {
				t.Fatalf("%+v in %q", e, text)
			}
			if a := e.Argon2; a != nil && (a.Time > 16 || a.Threads > 16 || a.MemoryKiB > 256<<10 || a.MemoryKiB < 8*uint32(a.Threads)) {
				t.Fatalf("%+v", a)
			}
			sum := sha256.Sum256(text)
			c, err := (&Encryption{Salt: e.Salt}).Cipher(t.Context(), Key(sum[:]))
			if err != nil {
				t.Fatal(err)
			}
			if k.Check(c, text, 0) {
				t.Fatal("nobody encrypted it so")
			}
			own := bytes.Clone(text)
			Finisher{Cipher: c}.putCheckAndSignature(k, own, 0)
			if again, err := Parse(own, format, 0, nil); err != nil || !again.Check(c, own, 0) {
				t.Fatalf("%v after its check was written", err)
			}
		}
	})
}
