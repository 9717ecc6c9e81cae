package loader

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/shard"
)

// keyring asks for the secret of a model's files, once. All files have the same one.
type keyring struct {
	askSecret func(ctx context.Context, id string) (Secret, error)

	mu     sync.Mutex
	first  *encrypted.Encryption // of the first file, which is authentic before another is opened
	secret Secret                // of first; nil until it is asked for
}

// authenticate checks the head of the file f against the key, before anything else parses it, and lets f decrypt its tensors. Later reads
// of the head return the checked bytes. It does nothing without a keyring. It fails with ErrKey if the key is not the key that the head was
// encrypted with, or if the head was changed. It also fails with ErrKey if the file, or the shards of a manifest, are not encrypted. It fails
// if asking for the secret or reading does.
func (k *keyring) authenticate(ctx context.Context, f *file, lim *layout.Limits) error {
	if k == nil {
		return nil
	}
	return guardFile(f.path, func() error {
		in := f.input(ctx)
		format, err := encrypted.FormatOf(in)
		if err != nil {
			return err
		}
		var e *encrypted.Encryption
		var head []byte
		var fits func(c *encrypted.Cipher) bool
		switch format {
		case layout.APR2:
			h, err := apr2.ReadEncryptedHead(in, apr2.Encrypted, lim)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrKey, err)
			}
			e, head, fits = h.Encryption, h.Bytes, h.Check
		case layout.Manifest:
			text, keys, err := encrypted.ReadManifest(in, lim)
			if err == nil && keys.Encryption == nil {
				err = errNotEncrypted("the manifest has no such key")
			}
			if err != nil {
				return err
			}
			e, head, fits = keys.Encryption, text, func(c *encrypted.Cipher) bool { return keys.Check(c, text, 0) }
		default:
			return errNotEncrypted("files of this format are never encrypted")
		}
		secret, err := k.secretOf(ctx, e)
		if err != nil {
			return err
		}
		c, err := e.Cipher(ctx, secret)
		if err != nil {
			return err
		}
		if !fits(c) {
			return layout.Errorf(format, 0, "encryption.check", ErrKey, "another key, or the head was changed since it was encrypted")
		}
		if format == layout.APR2 {
			f.cipher = c
		}
		if len(head) > len(f.verifiedHead) { // else the head that a Trust has verified begins with it
			f.verifiedHead = head
		}
		return nil
	})
}

// errNotEncrypted returns the error for a file that is not encrypted, though a key was given: a plain file must not pass for an
// encrypted one. It wraps ErrKey.
func errNotEncrypted(why string) error { return fmt.Errorf("%w: not encrypted: %s", ErrKey, why) }

// secretOf returns the secret of the encryption e. The first call asks Options.Key for the secret, and other calls wait for the answer.
// secretOf fails if Options.Key does, or returns no secret. It fails with layout.ErrInvalid if e derives its key in another way than the
// first file or manifest.
func (k *keyring) secretOf(ctx context.Context, e *encrypted.Encryption) (Secret, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.secret == nil {
		secret, err := k.askSecret(ctx, e.KeyID)
		if err == nil && secret == nil {
			err = fmt.Errorf("%w: Options.Key returned no secret for %s", ErrKey, layout.Quote([]byte(e.KeyID)))
		}
		if err != nil {
			return nil, err
		}
		k.first, k.secret = e, secret
	}
	if !e.SameSecret(k.first) { // e is not authenticated yet, and could make deriving a key take long
		return nil, fmt.Errorf("%w: it has another kdf, argon2 or key_id than its manifest", layout.ErrInvalid)
	}
	return k.secret, nil
}

// decryptedTensors returns the tensors of table. Tensors of encrypted files with a known key get the encoding and the number of
// bytes that they have after decryption.
func decryptedTensors(files []*file, table *shard.Table) []layout.Tensor {
	if !slices.ContainsFunc(files, func(f *file) bool { return f.decrypted != nil }) {
		return table.Tensors
	}
	tensors := slices.Clone(table.Tensors)
	for i := range tensors {
		if u := files[tensors[i].File].decrypted; u != nil {
			tensors[i] = u.Decrypted(tensors[i])
		}
	}
	return tensors
}
