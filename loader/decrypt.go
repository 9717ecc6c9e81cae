package loader

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	"github.com/tensormap/tensormap/shard"
)

// keyring asks for the secrets of a model's files, each once.
type keyring struct {
	askSecret func(ctx context.Context, id string) (Secret, error)

	mu              sync.Mutex
	secrets         map[string]Secret
	firstEncryption *encrypted.Encryption // of the first file, which is authentic before another is opened
}

// secret returns the secret called id. The first call asks Options.Key for it, with its ctx, while others wait. It fails with
// that function's error, or with ErrKey if the function returns no secret.
func (k *keyring) secret(ctx context.Context, id string) (Secret, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.secrets[id]; s != nil {
		return s, nil
	}
	s, err := k.askSecret(ctx, id)
	if err == nil && s == nil {
		err = fmt.Errorf("%w: Options.Key returned no secret for %s", ErrKey, layout.Quote([]byte(id)))
	}
	if err == nil {
		k.secrets[id] = s
	}
	return s, err
}

// authenticate checks the head of the file s against the key, before anything else parses it, and lets s decrypt its tensors. It
// fails with ErrKey if the file is not encrypted, if the key is another, or if the head was changed.
func (k *keyring) authenticate(ctx context.Context, s *stored, lim *layout.Limits) error {
	return guardFile(s.data.Name(), func() error {
		switch f, err := encrypted.FormatOf(s.index); {
		case err != nil:
			return err
		case f == layout.APR2:
			return k.authenticateFile(ctx, s, lim)
		case f == layout.Manifest:
			return k.authenticateManifest(ctx, s, lim)
		}
		return errNotEncrypted("files of this format are never encrypted")
	})
}

// errNotEncrypted returns the error for a file that is not encrypted, though a key was given: a plain file must not pass for an
// encrypted one. It wraps ErrKey.
func errNotEncrypted(why string) error { return fmt.Errorf("%w: not encrypted: %s", ErrKey, why) }

// authenticateFile checks the head of an APR2 file against the key, and sets s.cipher, which decrypts its tensors. It fails with
// ErrKey if the file is not encrypted, if the key is another, or if the head was changed or cannot be read. It also fails as cipher
// does.
func (k *keyring) authenticateFile(ctx context.Context, s *stored, lim *layout.Limits) error {
	head, err := apr2.ReadEncryptedHead(s.index, apr2.Encrypted, lim)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
	c, err := k.cipher(ctx, head.Encryption)
	if err != nil {
		return err
	}
	if !head.Check(c) {
		return wrongKey(layout.APR2)
	}
	s.cipher = c
	s.useVerifiedHead(head.Bytes)
	return nil
}

// authenticateManifest checks the bytes of the APR2 manifest s against the key. A manifest is plain text, but names the encryption
// of its shards. The index of s then reads the checked bytes. It fails with ErrKey if the manifest names no encryption, if the key
// is another, or if bytes were changed. It also fails as cipher does, or if the manifest cannot be read.
func (k *keyring) authenticateManifest(ctx context.Context, s *stored, lim *layout.Limits) error {
	b, keys, err := encrypted.ReadManifest(s.index, lim)
	if err == nil && keys.Encryption == nil {
		err = errNotEncrypted("the manifest has no such key")
	}
	if err != nil {
		return err
	}
	c, err := k.cipher(ctx, keys.Encryption)
	if err != nil {
		return err
	}
	if !keys.Check(c, b, 0) {
		return wrongKey(layout.Manifest)
	}
	s.useVerifiedHead(b)
	return nil
}

// cipher returns the cipher of a file with the encryption e. The first call stores e in k.firstEncryption; with a manifest, that is
// the one it names. It fails if there is no secret. It fails with layout.ErrInvalid if e derives its key in another way than
// k.firstEncryption.
func (k *keyring) cipher(ctx context.Context, e *encrypted.Encryption) (*encrypted.Cipher, error) {
	secret, err := k.secret(ctx, e.KeyID)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	if k.firstEncryption == nil {
		k.firstEncryption = e
	}
	first := k.firstEncryption
	k.mu.Unlock()
	if !e.SameSecret(first) { // e is not authenticated yet, and could make deriving a key take long
		return nil, fmt.Errorf("%w: it has another kdf, argon2 or key_id than its manifest", layout.ErrInvalid)
	}
	return e.Cipher(ctx, secret)
}

// wrongKey returns the error for a file of format f whose head the key does not authenticate. It wraps ErrKey.
func wrongKey(f layout.Format) error {
	return layout.Errorf(f, 0, "encryption.check", ErrKey, "another key, or the head was changed since it was encrypted")
}

// decryption returns the reader that decrypts the tensors of the file.
func (f *file) decryption() decrypted.Reader {
	return decrypted.Reader{File: f.decrypted, Source: f.data, LargeReads: f.data.Remote()}
}

// decryptedTensors returns the tensors of table. Tensors of encrypted files with a known key get the encoding and the number of
// bytes that they have after decryption.
func decryptedTensors(files []file, table *shard.Table) []layout.Tensor {
	if !slices.ContainsFunc(files, func(f file) bool { return f.decrypted != nil }) {
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

// lacksKey reports whether a file of the model is encrypted and cannot be decrypted for want of a key.
func (m *Model) lacksKey() bool {
	return slices.ContainsFunc(m.files, func(f file) bool {
		a, ok := f.layout.(*apr2.File)
		return ok && a.Encryption != nil && f.decrypted == nil
	})
}
