package trust

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"sync"

	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"golang.org/x/crypto/argon2"
)

// Passphrase is a secret that people remember. The key is derived from it by Argon2id, once for all files that
// share its parameters. It is safe for concurrent use.
type Passphrase struct {
	mu      sync.Mutex
	text    []byte
	derived map[encrypted.Argon2]*derivation
	argon2  func(text, salt []byte, time, memoryKiB uint32, threads uint8, size uint32) []byte
}

// derivation is a key that is being derived, or that has been.
type derivation struct {
	done chan struct{} // closed when key is set
	key  []byte
}

// deriving is a semaphore that limits derivations in this process to four at a time. Nothing can interrupt one.
var deriving = make(chan struct{}, 4)

// maxDerived bounds the keys that a passphrase caches. Files of strangers may each have parameters of their own.
const maxDerived = 64

// NewPassphrase returns the secret that text is; its bytes count as they are. An empty one is ErrKey.
func NewPassphrase(text []byte) (*Passphrase, error) {
	if len(text) == 0 {
		return nil, fmt.Errorf("%w: an empty passphrase", ErrKey)
	}
	return &Passphrase{text: bytes.Clone(text), derived: make(map[encrypted.Argon2]*derivation), argon2: argon2.IDKey}, nil
}

// Key returns a copy of the derived key. Deriving takes as much memory and time as the parameters say, which the
// reader of the file has bounded. Others wait only for a derivation of the same parameters, or if four
// are running in the process. Key returns when ctx ends; a derivation that was begun goes on in the
// background, and its key serves the next call. Files that were encrypted with a key are ErrKey.
func (p *Passphrase) Key(ctx context.Context, a *encrypted.Argon2) ([]byte, error) {
	if a == nil {
		return nil, fmt.Errorf("%w: the files were encrypted with a key, not with a passphrase", ErrKey)
	}
	if err := cmp.Or(a.Check(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	p.mu.Lock()
	d := p.derived[*a]
	p.mu.Unlock()
	if d == nil {
		select {
		case deriving <- struct{}{}:
			d = p.derive(*a)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	select {
	case <-d.done:
		return bytes.Clone(d.key), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// derive returns the derivation for the parameters a, and starts it unless another call has meanwhile. The caller has put an element
// into deriving, which is taken out again when the derivation ends.
func (p *Passphrase) derive(a encrypted.Argon2) *derivation {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.derived[a]; d != nil {
		<-deriving
		return d
	}
	for other, d := range p.derived {
		if len(p.derived) >= maxDerived && d.key != nil {
			delete(p.derived, other)
		}
	}
	d := &derivation{done: make(chan struct{})}
	p.derived[a] = d
	go func() {
		key := p.argon2(p.text, a.Salt[:], a.Time, a.MemoryKiB, a.Threads, encrypted.KeySize)
		p.mu.Lock()
		d.key = key
		p.mu.Unlock()
		<-deriving
		close(d.done)
	}()
	return d
}

// ParseKey reads a key: 32 bytes, or 64 hexadecimal digits and at most one line end. Errors repeat nothing
// of it.
func ParseKey(text []byte) (encrypted.Key, error) {
	if len(text) == encrypted.KeySize {
		return bytes.Clone(text), nil
	}
	key, err := hex.AppendDecode(nil, withoutLineEnd(text))
	if err != nil || len(key) != encrypted.KeySize {
		clear(key)
		return nil, fmt.Errorf("%w: neither 32 bytes nor 64 hexadecimal digits", ErrKey)
	}
	return key, nil
}

// withoutLineEnd returns text without one final LF or CRLF.
func withoutLineEnd(text []byte) []byte {
	if rest, ok := bytes.CutSuffix(text, []byte("\n")); ok {
		return bytes.TrimSuffix(rest, []byte("\r"))
	}
	return text
}

// ReadKey reads a key file, whose mode is checked as by ReadPrivateKey. The other errors are the errors of ParseKey.
func ReadKey(path string) (encrypted.Key, error) {
	return parseSecret(path, ParseKey)
}

// ReadPassphrase reads a passphrase file. One final LF or CRLF is not part of the passphrase. The file's
// mode is checked as by ReadPrivateKey. The other errors are the errors of NewPassphrase.
func ReadPassphrase(path string) (*Passphrase, error) {
	return parseSecret(path, func(text []byte) (*Passphrase, error) { return NewPassphrase(withoutLineEnd(text)) })
}

// The names of environment variables that hold secrets.
const (
	KeyVariable        = "TENSORMAP_DECRYPT" // a key in hexadecimal
	PassphraseVariable = "TENSORMAP_PASSPHRASE"
)

// EnvironmentSecret returns the secret that one of the variables holds, and which; nil if both are unset or
// empty. Both at once are ErrKey.
func EnvironmentSecret() (secret encrypted.Secret, name string, err error) {
	key, passphrase := os.Getenv(KeyVariable), os.Getenv(PassphraseVariable)
	switch {
	case key != "" && passphrase != "":
		return nil, "", fmt.Errorf("%w: %s and %s are both set", ErrKey, KeyVariable, PassphraseVariable)
	case key != "":
		k, err := hex.DecodeString(key)
		if err != nil || len(k) != encrypted.KeySize {
			return nil, KeyVariable, fmt.Errorf("%s: %w: not 64 hexadecimal digits", KeyVariable, ErrKey)
		}
		return encrypted.Key(k), KeyVariable, nil
	case passphrase != "":
		p, err := NewPassphrase([]byte(passphrase))
		return p, PassphraseVariable, err
	}
	return nil, "", nil
}

// Always returns a function for a loader's Options.Key that returns s for every file.
func Always(s encrypted.Secret) func(context.Context, string) (encrypted.Secret, error) {
	return func(context.Context, string) (encrypted.Secret, error) { return s, nil }
}

// NewEncrypter returns the encrypter of APR2 files that a secret makes: a key, or a passphrase with the parameters of
// [encrypted.NewArgon2]. The files of one model are written with one encrypter.
func NewEncrypter(s encrypted.Secret) *apr2.Encrypter {
	encrypter := &apr2.Encrypter{Secret: s}
	if _, ok := s.(*Passphrase); ok {
		encrypter.Argon2 = encrypted.NewArgon2()
	}
	return encrypter
}
