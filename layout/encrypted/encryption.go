package encrypted

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// KeySize is the number of bytes of a key.
const KeySize = 32

// Algorithm is the only one of encryption.
const Algorithm = "AES-256-GCM"

// TagSize is the number of bytes by which a block grows when it is encrypted.
const TagSize = 16

// The sizes of blocks that a file may have: powers of two, in bytes.
const (
	MinBlock     = 1 << 12
	MaxBlock     = 1 << 20
	DefaultBlock = 1 << 16
)

const (
	keyContext = "APR2-ENCRYPTED-v1" // from which the keys of files are derived
	checkChars = 24                  // of check in base64
	checkBlock = 1 << 63             // the number of the block that check is
	keyIDBytes = 256
)

// The ways from a secret to a key.
const (
	HKDF     = "HKDF-SHA256" // the secret is the key
	Argon2id = "Argon2id"    // the secret is a passphrase
)

// Encryption is the object "encryption" of a file's metadata, or of a manifest.
type Encryption struct {
	BlockSize uint64 // of files: the bytes of a tensor's content that are encrypted at a time
	Salt      []byte // of this file alone
	KDF       string
	Argon2    *Argon2 // with Argon2id, else nil
	KeyID     string  // names the key for its owner; "" if it has no name
	Check     []byte  // authenticates the head

	check int // where its text between quotes starts
}

// Argon2 holds the parameters of Argon2id (RFC 9106), version 0x13 with 32 bytes of output.
type Argon2 struct {
	Time      uint32
	MemoryKiB uint32
	Threads   uint8
	Salt      [16]byte
}

// NewArgon2 returns the parameters that are written: 3 passes over 64 MiB by 4 threads, and a new salt.
func NewArgon2() *Argon2 {
	a := &Argon2{Time: 3, MemoryKiB: 64 << 10, Threads: 4}
	rand.Read(a.Salt[:])
	return a
}

// maxPasses is the highest time and number of threads of Argon2id.
const maxPasses = 16

// maxWork is how many times a derivation may pass over as much memory as the reader's limit allows. So
// the default limit, 256 MiB, allows 4 passes over all of it, and 16 over 64 MiB.
const maxWork = 4

// Check returns an error for parameters that no file may have.
func (a *Argon2) Check() error {
	if a.Time < 1 || a.Time > maxPasses || a.Threads < 1 || a.Threads > maxPasses || a.MemoryKiB < 8*uint32(a.Threads) {
		return fmt.Errorf("%w: argon2 with time %d, %d KiB and %d threads: time and threads are 1 to %d, and a thread has 8 KiB or more",
			layout.ErrLimit, a.Time, a.MemoryKiB, a.Threads, maxPasses)
	}
	return nil
}

// NewEncryption returns the object for a file, or for a manifest if block is 0, with a salt of its own.
func NewEncryption(block uint64, argon2 *Argon2, keyID string) (*Encryption, error) {
	e := &Encryption{BlockSize: block, Salt: make([]byte, 32), KDF: HKDF, Argon2: argon2, KeyID: keyID}
	rand.Read(e.Salt)
	if argon2 != nil {
		e.KDF = Argon2id
		if err := argon2.Check(); err != nil { // or nobody could read the file
			return nil, err
		}
	}
	switch {
	case block != 0 && !blockOK(block):
		return nil, fmt.Errorf("%w: blocks of %d bytes, not a power of two from %d to %d", layout.ErrInvalid, block, MinBlock, MaxBlock)
	case len(keyID) > keyIDBytes:
		return nil, fmt.Errorf("%w: a key_id of %d bytes, more than %d", layout.ErrLimit, len(keyID), keyIDBytes)
	}
	return e, nil
}

// blockOK reports whether files may have blocks of n bytes.
func blockOK(n uint64) bool { return n >= MinBlock && n <= MaxBlock && n&(n-1) == 0 }

// SameSecret reports whether e and o name the same key, and derive it alike.
func (e *Encryption) SameSecret(o *Encryption) bool {
	same := e.Argon2 == o.Argon2 || e.Argon2 != nil && o.Argon2 != nil && *e.Argon2 == *o.Argon2
	return same && e.KDF == o.KDF && e.KeyID == o.KeyID
}

// Metadata returns the object, with a placeholder of zeros for the check.
func (e *Encryption) Metadata() layout.Metadata {
	encode := base64.StdEncoding.EncodeToString
	md := layout.Metadata{{Key: "algorithm", Value: Algorithm}}
	if e.BlockSize != 0 {
		md.Set("block_size", jsonUint(e.BlockSize))
	}
	md.Set("salt", encode(e.Salt))
	md.Set("kdf", e.KDF)
	if a := e.Argon2; a != nil {
		md.Set("argon2", layout.Metadata{
			{Key: "time", Value: jsonUint(uint64(a.Time))},
			{Key: "memory_kib", Value: jsonUint(uint64(a.MemoryKiB))},
			{Key: "threads", Value: jsonUint(uint64(a.Threads))},
			{Key: "salt", Value: encode(a.Salt[:])},
		})
	}
	if e.KeyID != "" {
		md.Set("key_id", e.KeyID)
	}
	md.Set("check", encode(make([]byte, TagSize)))
	return md
}

// parse reads the object that comes next in js. text starts at offset at. A file must have block_size, and a manifest
// must not.
func (e *Encryption) parse(js *jsontext.Scanner, text []byte, at uint64, file bool, lim layout.Limits) {
	start, wanted := js.Offset(), []string{"algorithm", "salt", "kdf", "check"}
	if file {
		wanted = append(wanted, "block_size")
	}
	readMembers(js, wanted, func(key string, place uint64) {
		switch key {
		case "algorithm":
			checkAlgorithm(js, Algorithm)
		case "block_size":
			if e.BlockSize = js.Uint(); !blockOK(e.BlockSize) || !file {
				js.Fail(place, layout.ErrInvalid, "block_size is %d, not a power of two from %d to %d in a file", e.BlockSize, MinBlock, MaxBlock)
			}
		case "salt":
			e.Salt = ReadBase64(js, "salt", 32)
		case "kdf":
			if e.KDF = strings.Clone(js.Text()); e.KDF != HKDF && e.KDF != Argon2id {
				js.Fail(place, layout.ErrUnsupported, "kdf %s; %s and %s are known", layout.Quote(e.KDF), HKDF, Argon2id)
			}
		case "argon2":
			e.Argon2 = new(Argon2)
			e.Argon2.parse(js, lim)
		case "key_id":
			if e.KeyID = strings.Clone(js.Text()); len(e.KeyID) > keyIDBytes {
				js.Fail(place, layout.ErrLimit, "a key_id of %d bytes, more than %d", len(e.KeyID), keyIDBytes)
			}
		case "check":
			e.check = int(place-at) + 1
			if e.Check = ReadBase64(js, "check", TagSize); e.check+checkChars >= len(text) || text[e.check+checkChars] != '"' {
				js.Fail(place, layout.ErrInvalid, "the check has escapes")
			}
		}
	})
	if (e.KDF == Argon2id) != (e.Argon2 != nil) {
		js.Fail(start, layout.ErrInvalid, "argon2 must be there exactly with kdf %s, not with %s", Argon2id, e.KDF)
	}
}

// parse reads the object that comes next in js. It fails for parameters that take more memory or time than lim
// allows.
func (a *Argon2) parse(js *jsontext.Scanner, lim layout.Limits) {
	var memoryAt, memory uint64
	readMembers(js, []string{"time", "memory_kib", "threads", "salt"}, func(key string, place uint64) {
		upTo16 := func() uint64 {
			n := js.Uint()
			if n < 1 || n > maxPasses {
				js.Fail(place, layout.ErrLimit, "argon2.%s is %d, not 1 to %d", key, n, maxPasses)
			}
			return n
		}
		switch key {
		case "time":
			a.Time = uint32(upTo16())
		case "threads":
			a.Threads = uint8(upTo16())
		case "memory_kib":
			memory, memoryAt = js.Uint(), place
		case "salt":
			copy(a.Salt[:], ReadBase64(js, "argon2.salt", len(a.Salt)))
		}
	})
	if least := 8 * uint64(a.Threads); memory < least || memory > lim.Argon2KiB || memory > 1<<32-1 {
		js.Fail(memoryAt, layout.ErrLimit, "argon2.memory_kib is %d, not %d to %d", memory, least, lim.Argon2KiB)
	}
	a.MemoryKiB = uint32(memory)
	if work := uint64(a.Time) * memory; (work+maxWork-1)/maxWork > lim.Argon2KiB {
		js.Fail(memoryAt, layout.ErrLimit, "argon2.time %d times memory_kib %d is more than %d times %d", a.Time, memory, maxWork, lim.Argon2KiB)
	}
}

// StoredBytes returns how many bytes n bytes of content take when they are encrypted in blocks.
func StoredBytes(n, block uint64) uint64 { return n + TagSize*((n+block-1)/block) }

// ContentBytes returns how many bytes of content are in encrypted blocks of n bytes together. It reports false if
// the last block would have none.
func ContentBytes(n, block uint64) (content uint64, ok bool) {
	each := block + TagSize
	blocks := n / each
	if rest := n % each; rest > TagSize {
		blocks++
	} else if rest > 0 {
		return 0, false
	}
	return n - TagSize*blocks, true
}

// Secret opens what was encrypted with it: a [Key], or a passphrase of package trust.
type Secret interface {
	// Key returns a copy of the key from which the keys of files are derived. argon2 is nil if the files
	// were encrypted with a key. The other kind of secret is layout.ErrKey. The parameters are the parameters of a file
	// that nobody has authenticated yet: without the key that cannot be done.
	Key(ctx context.Context, argon2 *Argon2) ([]byte, error)
}

// Key is a secret of 32 bytes.
type Key []byte

// Key returns a copy of k.
func (k Key) Key(_ context.Context, argon2 *Argon2) ([]byte, error) {
	switch {
	case argon2 != nil:
		return nil, fmt.Errorf("%w: the files were encrypted with a passphrase, not with a key", layout.ErrKey)
	case len(k) != KeySize:
		return nil, fmt.Errorf("%w: a key of %d bytes, not %d", layout.ErrKey, len(k), KeySize)
	}
	return append([]byte(nil), k...), nil
}

// Cipher encrypts and opens the blocks of one file. It is safe for concurrent use.
type Cipher struct{ AEAD cipher.AEAD }

// Cipher derives the file's key from secret. It returns when ctx ends.
func (e *Encryption) Cipher(ctx context.Context, secret Secret) (*Cipher, error) {
	key, err := secret.Key(ctx, e.Argon2)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	own, err := hkdf.Key(sha256.New, key, e.Salt, keyContext, KeySize)
	if err != nil {
		return nil, err
	}
	defer clear(own)
	block, err := aes.NewCipher(own)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Cipher{aead}, nil
}

// Nonce is memory for the nonce of a block. A goroutine uses one again and again, so that none is allocated.
type Nonce [12]byte

// set makes n the nonce of a block of a tensor, and returns its bytes.
func (n *Nonce) set(ordinal uint32, block uint64) []byte {
	binary.BigEndian.PutUint32(n[:], ordinal)
	binary.BigEndian.PutUint64(n[4:], block)
	return n[:]
}

// Seal appends the encrypted form of a block to dst, as [cipher.AEAD] does. The block is the one of this number in the tensor of
// this ordinal in the index; entry describes the tensor.
func (c *Cipher) Seal(n *Nonce, dst, plain, entry []byte, ordinal uint32, block uint64) []byte {
	return c.AEAD.Seal(dst, n.set(ordinal, block), plain, entry)
}

// Open appends the content of an encrypted block to dst. It reports false, and writes nothing that could be used,
// if that is not what was encrypted as this block.
func (c *Cipher) Open(n *Nonce, dst, encrypted, entry []byte, ordinal uint32, block uint64) ([]byte, bool) {
	out, err := c.AEAD.Open(dst, n.set(ordinal, block), encrypted, entry)
	return out, err == nil
}

// Check reports whether c belongs to head, and head is as it was when it was encrypted. Metadata start at offset
// at, or the whole manifest at 0. k was found there.
func (k Keys) Check(c *Cipher, head []byte, at int) bool {
	return subtle.ConstantTimeCompare(k.checkTag(c, head, at), k.Encryption.Check) == 1
}

// checkTag returns the authentication tag of head, whose metadata starts at offset at: over all of it but the check and the signature's
// value. It is what "check" of the encryption must be.
func (k Keys) checkTag(c *Cipher, head []byte, at int) []byte {
	masked := append([]byte(nil), head...)
	maskWithA(masked[at+k.Encryption.check:][:checkChars])
	if k.Signature != nil {
		maskWithA(masked[at+k.Signature.value:][:valueChars])
	}
	sum := sha256.Sum256(masked)
	return c.Seal(new(Nonce), nil, nil, sum[:], 0, checkBlock)
}
