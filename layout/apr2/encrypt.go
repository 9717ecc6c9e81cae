package apr2

import (
	"cmp"
	"context"
	"iter"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/layout/internal/tensorwriter"
)

// Encrypter encrypts the files that a Writer writes, each under a key of its own.
type Encrypter struct {
	Secret encrypted.Secret
	// Argon2 is there exactly if Secret is a passphrase. The shards of a model and their manifest share it.
	Argon2 *encrypted.Argon2
	// KeyID names the key for its owner. It may be empty, and is not secret.
	KeyID string
	// BlockSize is the number of bytes that are encrypted at a time: 65,536, which 0 means too, or another
	// power of two from 4,096 to 1,048,576.
	BlockSize int
}

// blockSize returns the size of blocks in bytes: BlockSize, or the default.
func (s *Encrypter) blockSize() uint64 {
	return cmp.Or(uint64(max(0, s.BlockSize)), encrypted.DefaultBlock)
}

// newCipher returns the metadata object and the cipher of a new file with blocks of this size, or of a manifest if block is 0. It fails
// if the parameters are invalid, or the secret gives no key.
func (s *Encrypter) newCipher(block uint64) (*encrypted.Encryption, *encrypted.Cipher, error) {
	e, err := encrypted.NewEncryption(block, s.Argon2, s.KeyID)
	if err != nil {
		return nil, nil, err
	}
	c, err := e.Cipher(context.Background(), s.Secret) // the parameters are the caller's own
	return e, c, err
}

// Manifest returns the object "encryption" for the manifest of encrypted shards, and its cipher.
func (s *Encrypter) Manifest() (layout.Metadata, *encrypted.Cipher, error) {
	e, c, err := s.newCipher(0)
	if err != nil {
		return nil, nil, err
	}
	return e.Metadata(), c, nil
}

// MetadataBytes returns how much the metadata of a file grows if it is encrypted.
func (s *Encrypter) MetadataBytes() (uint64, error) {
	e, err := encrypted.NewEncryption(encrypted.MaxBlock, s.Argon2, s.KeyID)
	if err != nil {
		return 0, err
	}
	b, err := layout.Metadata{{Key: encryptionKey, Value: e.Metadata()}}.MarshalJSON()
	return uint64(len(b)), err
}

// encryptionKey is the key of metadata that says how a file was encrypted.
const encryptionKey = "encryption"

// encrypt is the encryption of one file that is written. If it is nil, the file is not encrypted.
type encrypt struct {
	cipher *encrypted.Cipher
	block  uint64
}

// storedBytes returns how many bytes n bytes of content take.
func (s *encrypt) storedBytes(n uint64) uint64 {
	if s == nil {
		return n
	}
	return encrypted.StoredBytes(n, s.block)
}

// encryptedAtOnce is how many bytes of content are collected before they are encrypted on all cores.
const encryptedAtOnce = 4 << 20

// filter returns what encrypts t, whose position in the index is ordinal, block by block. Only a tensor's last block may be shorter.
func (s *encrypt) filter(t *layout.Tensor, ordinal int) *tensorwriter.Filter {
	f := &tensorwriter.Filter{Blocks: max(1, min(encryptedAtOnce, t.Stored+s.block-1)/s.block), Block: s.block, Space: encrypted.TagSize}
	entry, next := AppendIdentity(nil, t), uint64(0) // the number of the block to come
	f.Change = func(b []byte, n uint64) []byte {
		count := (n + s.block - 1) / s.block
		parallel.Each(parallel.Workers(count), parallel.Range(count), func(items iter.Seq[uint64]) error { // which never fails
			nonce := new(encrypted.Nonce)
			for i := range items {
				plain := b[i*(s.block+encrypted.TagSize):][:min(s.block, n-i*s.block)]
				s.cipher.Seal(nonce, plain[:0], plain, entry, uint32(ordinal), next+i)
			}
			return nil
		})
		next += count
		return b[:s.storedBytes(n)]
	}
	return f
}
