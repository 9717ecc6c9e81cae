package apr2

import (
	"cmp"
	"context"
	"io"
	"iter"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
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
	buf    []byte // whole blocks, each with space for its tag
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

// encrypting encrypts what is written to it, block by block, and writes that to dst. It copies first, since
// what it is given may be mapped, and such bytes must be read only once.
type encrypting struct {
	*encrypt
	dst     io.Writer
	ordinal uint32
	entry   []byte
	next    uint64 // the number of the block to come
	content uint64 // bytes in buf, without tags
}

// encryptedWrite returns a function that does what write does, but encrypts all that it writes to dst. t is the tensor, and ordinal its
// position in the index.
func (s *encrypt) encryptedWrite(t *layout.Tensor, ordinal int, write func(dst io.Writer) error) func(dst io.Writer) error {
	blocks := max(1, min(encryptedAtOnce, t.Stored+s.block-1)/s.block)
	if n := blocks * (s.block + encrypted.TagSize); n > uint64(len(s.buf)) {
		s.buf = make([]byte, n)
	}
	return func(dst io.Writer) error {
		w := &encrypting{encrypt: s, dst: dst, ordinal: uint32(ordinal), entry: AppendIdentity(nil, t)}
		if err := write(w); err != nil {
			return err
		}
		return w.flush()
	}
}

// Write collects b, and encrypts and writes what has been collected whenever the memory for it is full.
func (w *encrypting) Write(b []byte) (written int, err error) {
	for written < len(b) {
		i, off := w.content/w.block, w.content%w.block
		at := i*(w.block+encrypted.TagSize) + off
		if at >= uint64(len(w.buf)) {
			if err := w.flush(); err != nil {
				return written, err
			}
			continue
		}
		n := copy(w.buf[at:][:w.block-off], b[written:])
		written += n
		w.content += uint64(n)
	}
	return written, nil
}

// flush encrypts the content in buf, block by block, and writes it. Only a tensor's last block may be shorter. It fails if writing does.
func (w *encrypting) flush() error {
	count, each := (w.content+w.block-1)/w.block, w.block+encrypted.TagSize
	err := parallel.Each(parallel.Workers(count), parallel.Range(count), func(items iter.Seq[uint64]) error {
		nonce := new(encrypted.Nonce)
		for i := range items {
			plain := w.buf[i*each:][:min(w.block, w.content-i*w.block)]
			w.cipher.Seal(nonce, plain[:0], plain, w.entry, w.ordinal, w.next+i)
		}
		return nil
	})
	if err != nil {
		return err
	}
	n := w.storedBytes(w.content)
	w.next += count
	w.content = 0
	_, err = w.dst.Write(w.buf[:n])
	return err
}
