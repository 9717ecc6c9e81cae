package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/shard"
)

// keyring asks for the secrets of a model's files, each once.
type keyring struct {
	ask func(ctx context.Context, id string) (Secret, error)

	mu      sync.Mutex
	secrets map[string]Secret
	first   *encrypted.Encryption // of the first file, which is authentic before another is opened
}

// secret returns the secret called id. It asks for it the first time, and remembers the answer unless that is an error.
// ErrKey means that the answer was nil.
func (k *keyring) secret(ctx context.Context, id string) (Secret, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.secrets[id]; s != nil {
		return s, nil
	}
	s, err := k.ask(ctx, id)
	if err == nil && s == nil {
		err = fmt.Errorf("%w: Options.Key returned no secret for %s", ErrKey, layout.Quote([]byte(id)))
	}
	if err == nil {
		k.secrets[id] = s
	}
	return s, err
}

// decrypt makes s an encrypted file whose head is authentic, before anything in it is believed. The error names
// the file.
func (k *keyring) decrypt(ctx context.Context, s *stored, lim *layout.Limits) error {
	return readFile(s.data.Name(), func() error {
		switch f, err := encrypted.FormatOf(s.index); {
		case err != nil:
			return err
		case f == layout.APR2:
			return k.decryptFile(ctx, s, lim)
		case f == layout.Manifest:
			return k.decryptManifest(ctx, s, lim)
		}
		return errPlain("files of this format are never encrypted")
	})
}

// errPlain returns the error of a key for what is not encrypted. A plain file must not pass for an encrypted one.
func errPlain(why string) error { return fmt.Errorf("%w: not encrypted: %s", ErrKey, why) }

// decryptFile checks the head of an APR2 file with the secret of its key, and sets s.cipher, which decrypts the
// tensors. The error is ErrKey for a file that is not encrypted, another key or a changed head.
func (k *keyring) decryptFile(ctx context.Context, s *stored, lim *layout.Limits) error {
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
	s.keepHead(head.Bytes)
	return nil
}

// decryptManifest checks an APR2 manifest with the secret of its key. The manifest itself is not encrypted: s gets no
// cipher. The error is ErrKey for one without encryption, another key or changed bytes.
func (k *keyring) decryptManifest(ctx context.Context, s *stored, lim *layout.Limits) error {
	b, keys, err := encrypted.ReadManifest(s.index, lim)
	if err == nil && keys.Encryption == nil {
		err = errPlain("the manifest has no such key")
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
	s.keepHead(b)
	return nil
}

// cipher returns the cipher of a file that is encrypted as e says. The error is layout.ErrInvalid if e differs from the
// first file of the model, or that of asking for the secret.
func (k *keyring) cipher(ctx context.Context, e *encrypted.Encryption) (*encrypted.Cipher, error) {
	secret, err := k.secret(ctx, e.KeyID)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	if k.first == nil {
		k.first = e
	}
	first := k.first
	k.mu.Unlock()
	if !e.SameSecret(first) { // no key is derived as a shard alone says
		return nil, fmt.Errorf("%w: it has another kdf, argon2 or key_id than its manifest", layout.ErrInvalid)
	}
	return e.Cipher(ctx, secret)
}

// wrongKey returns the error of a head that the key does not authenticate.
func wrongKey(f layout.Format) error {
	return layout.Errorf(f, 0, "encryption.check", ErrKey, "another key, or the head was changed since it was encrypted")
}

// decryption returns the reader that decrypts the tensors of the file.
func (f *file) decryption() decrypted.Reader {
	return decrypted.Reader{File: f.decrypted, R: f.data, Whole: f.data.Remote()}
}

// fillEncrypted fills buffers with decrypted bytes from off on. Its error names the tensor whose bytes are not
// authentic.
func (f *file) fillEncrypted(ctx context.Context, buffers []plan.Padded, off uint64) error {
	err := f.readEncrypted(ctx, buffers, off)
	if wrong, ok := errors.AsType[*decrypted.Error](err); ok {
		return fmt.Errorf("tensor %s: %w", layout.Quote([]byte(wrong.Tensor)), wrong)
	}
	return err
}

// readEncrypted does what fillEncrypted does. One request first fetches all bytes of a remote file.
func (f *file) readEncrypted(ctx context.Context, buffers []plan.Padded, off uint64) error {
	r := f.decryption()
	if r.Whole {
		n := uint64(0)
		for _, p := range buffers {
			n += p.Gap + uint64(len(p.B))
		}
		var err error
		if r, err = r.Fetch(ctx, off, n); err != nil {
			return err
		}
	}
	return plan.FillEach(ctx, buffers, off, r.ReadAt)
}

// contents returns the tensors of table, described as they are after decryption if the key of their file is known.
func contents(files []file, table *shard.Table) []layout.Tensor {
	if !slices.ContainsFunc(files, func(f file) bool { return f.decrypted != nil }) {
		return table.Tensors
	}
	tensors := slices.Clone(table.Tensors)
	for i := range tensors {
		if u := files[tensors[i].File].decrypted; u != nil {
			tensors[i] = u.Content(tensors[i])
		}
	}
	return tensors
}

// locked reports whether a file of the model is encrypted, and there is no key.
func (m *Model) locked() bool {
	return slices.ContainsFunc(m.files, func(f file) bool {
		a, ok := f.layout.(*apr2.File)
		return ok && a.Encryption != nil && f.decrypted == nil
	})
}
