package trust

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// The reasons for which a signature is refused, for errors.Is.
var (
	// ErrSignature means that the signature is not one of the trusted key over these bytes.
	ErrSignature = errors.New("signature not valid")
	// ErrUnsigned means that a key is trusted, but the file or the model is not signed.
	ErrUnsigned = errors.New("not signed")
	// ErrKey means that a key cannot be used: its type, its form or its file's permissions are wrong. It is
	// also the loader's error for a model that needs another key, or none.
	ErrKey = layout.ErrKey
)

// The types of keys, as the command calls them.
const (
	P256    = "p256"
	P384    = "p384"
	P521    = "p521"
	Ed25519 = "ed25519" // for APR2's own signatures; bundles have none
)

// KeyTypes lists the types of keys.
func KeyTypes() []string { return []string{P256, P384, P521, Ed25519} }

// GenerateKey returns a new key of one of KeyTypes.
func GenerateKey(typ string) (crypto.Signer, error) {
	if curve := map[string]elliptic.Curve{P256: elliptic.P256(), P384: elliptic.P384(), P521: elliptic.P521()}[typ]; curve != nil {
		return ecdsa.GenerateKey(curve, rand.Reader)
	}
	if typ == Ed25519 {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("%w: no type %q, only %s", ErrKey, typ, strings.Join(KeyTypes(), ", "))
}

// PublicName returns the name of the file of the public key that belongs to the key file at path:
// k.pub.pem for k.pem.
func PublicName(path string) string {
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + ".pub" + ext
}

// WriteKey writes key to a new file at path, which its owner alone may read (PKCS#8 in PEM). The public
// key goes to a new file at PublicName(path). It replaces neither.
func WriteKey(path string, key crypto.Signer) error {
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
	public, err := encodePublic(key.Public())
	if err != nil {
		return err
	}
	if _, err := os.Lstat(PublicName(path)); !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "create", Path: PublicName(path), Err: fs.ErrExist}
	}
	if err := writeNew(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600); err != nil {
		return err
	}
	return writeNew(PublicName(path), public, 0o644)
}

// writeNew writes a file that must not exist yet. It removes the file if it fails.
func writeNew(path string, b []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(path)
	}
	return err
}

// encodePublic returns the PEM text of a public key.
func encodePublic(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// Hint returns the name that bundles have for a key: the SHA-256 of its PEM text, in hexadecimal.
func Hint(key crypto.PublicKey) (string, error) {
	text, err := encodePublic(key)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// keyBytes bounds a file of keys or certificates.
const keyBytes = 1 << 20

// readSmallFile returns the text of the file at path. notPrivate is the error that others may read or change the file, or nil: see
// ReadPrivateKey. err says that the file cannot be read or has more than keyBytes.
func readSmallFile(path string) (text []byte, notPrivate, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Mode().IsRegular() && runtime.GOOS != "windows" && runtime.GOARCH != "wasm" {
		notPrivate = checkMode(info.Mode().Perm(), ownedByRoot(info))
	}
	text, err = io.ReadAll(io.LimitReader(f, keyBytes+1))
	if err == nil && len(text) > keyBytes {
		err = fmt.Errorf("%s: %w: more than %d bytes", path, ErrKey, keyBytes)
	}
	return text, notPrivate, err
}

// checkMode returns an error if the mode of a secret's file lets others read or change it. If root owns the file, its
// group may read it: that is the rule of PostgreSQL.
func checkMode(mode fs.FileMode, ownedByRoot bool) error {
	others, fix := fs.FileMode(0o077), "chmod 600"
	if ownedByRoot {
		others, fix = 0o037, "chmod 600 or 640; defaultMode: 0440 of a Kubernetes secret"
	}
	if mode&others == 0 {
		return nil
	}
	return fmt.Errorf("%w: others may read or change it (mode %#o): %s", ErrKey, mode, fix)
}

// ReadPrivateKey reads a private key in PEM from a file that only its owner should read: of mode 0600 or less, or of
// 0640 or less if root owns it, as a Kubernetes secret is mounted for a group. Another mode is ErrKey, on systems that
// have modes. Symbolic links are followed. The other errors are the errors of ParsePrivateKey.
func ReadPrivateKey(path string) (crypto.Signer, error) {
	return parseSecret(path, ParsePrivateKey)
}

// parseSecret returns what parse makes of the text of the file at path, and clears the text. It fails if the file cannot be read, if
// parse does, or if others may read the file. The file's mode is checked last: a public key in its place is no secret. Errors name the
// file.
func parseSecret[T any](path string, parse func(text []byte) (T, error)) (secret T, err error) {
	text, notPrivate, err := readSmallFile(path)
	if err != nil {
		return secret, err
	}
	defer clear(text)
	parsed, err := parse(text)
	if err = cmp.Or(err, notPrivate); err != nil {
		return secret, inFile(path, err)
	}
	return parsed, nil
}

// ParsePrivateKey reads the PEM text of a private key: PKCS#8 or SEC 1, not encrypted. Errors repeat
// nothing of the text.
func ParsePrivateKey(text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch isEC := block.Type == "EC PRIVATE KEY"; {
		case block.Type == "ENCRYPTED PRIVATE KEY", isEC && block.Headers["DEK-Info"] != "":
			return nil, fmt.Errorf("%w: encrypted PEM; decrypt it first (openssl pkey)", ErrKey)
		case isEC:
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case block.Type == "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case block.Type == "PUBLIC KEY":
			return nil, fmt.Errorf("%w: a public key where the private one belongs", ErrKey)
		default: // such as EC PARAMETERS
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w: damaged %q", ErrKey, block.Type)
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("%w: %s does not sign", ErrKey, keyKind(key))
		}
		return signer, checkUsable(signer.Public())
	}
	return nil, fmt.Errorf("%w: no private key in PEM", ErrKey)
}

// ReadPublicKey reads a public key in PEM from the file at path. The errors are the errors of ParsePublicKey, and of reading.
func ReadPublicKey(path string) (crypto.PublicKey, error) {
	text, _, err := readSmallFile(path)
	if err != nil {
		return nil, err
	}
	key, err := ParsePublicKey(text)
	return key, inFile(path, err)
}

// ParsePublicKey reads the PEM text of a public key. The error is ErrKey if there is none, or if no signature has such a key.
func ParsePublicKey(text []byte) (crypto.PublicKey, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "PUBLIC KEY":
			key, err := x509.ParsePKIXPublicKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("%w: damaged %q", ErrKey, block.Type)
			}
			return key, checkUsable(key)
		case "PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY":
			return nil, fmt.Errorf("%w: a private key where the public one belongs", ErrKey)
		case "CERTIFICATE":
			return nil, fmt.Errorf("%w: a certificate where a public key belongs", ErrKey)
		}
	}
	return nil, fmt.Errorf("%w: no public key in PEM", ErrKey)
}

// keyKind returns the name of a key's type with its article, such as "an RSA key", for an error.
func keyKind(key any) string {
	switch key.(type) {
	case *ecdsa.PublicKey:
		return "an ECDSA key"
	case ed25519.PublicKey:
		return "an Ed25519 key"
	case *rsa.PublicKey:
		return "an RSA key"
	}
	return fmt.Sprintf("a %T", key)
}

// checkUsable returns ErrKey unless key is an Ed25519 key, or an ECDSA key on P-256, P-384 or P-521.
func checkUsable(key crypto.PublicKey) error {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if hashes[key.Curve] != 0 {
			return nil
		}
		return fmt.Errorf("%w: the curve %s; P-256, P-384 and P-521 are known", ErrKey, key.Params().Name)
	}
	return fmt.Errorf("%w: %s; ECDSA on P-256, P-384 or P-521, and Ed25519 are known", ErrKey, keyKind(key))
}

// ReadCertificates returns the certificates in the files at paths, in PEM, in order. It fails if a file cannot be read or has none.
func ReadCertificates(paths ...string) (list []*x509.Certificate, err error) {
	for _, path := range paths {
		text, _, err := readSmallFile(path)
		if err != nil {
			return nil, err
		}
		before := len(list)
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "CERTIFICATE" {
				continue
			}
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w: %w", path, ErrKey, err)
			}
			list = append(list, c)
		}
		if len(list) == before {
			return nil, fmt.Errorf("%s: %w: no certificate in PEM", path, ErrKey)
		}
	}
	return list, nil
}

// inFile returns err with the path in front, or nil if err is nil.
func inFile(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}
