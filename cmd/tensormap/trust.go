package main

import (
	"cmp"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
)

// trustFlags has the flags that say whose model the user trusts.
type trustFlags struct {
	signature string
	key       string
	roots     []string
	identity  string
	digests   []string

	signer string // who has signed the model that was opened; "" before its signature is verified
}

// addTo declares the flags.
func (t *trustFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.signature, "signature", "", "read only what the bundle `FILE` vouches for (OpenSSF Model Signing)")
	cmd.Flags().StringVar(&t.key, "key", "", "trust this public key, a PEM `FILE`")
	cmd.Flags().StringArrayVar(&t.roots, "certificate-chain", nil, "trust bundles whose certificates lead to one in this PEM `FILE`")
	cmd.Flags().StringVar(&t.identity, "certificate-identity", "", "trust only `WHO` of them: the subject, an email address, a DNS name or a URI")
	cmd.Flags().StringArrayVar(&t.digests, "digest", nil, "read only a file of this `[NAME=]DIGEST`: sha256:HEX, sha512:HEX, or a hub's ETag")
}

// check returns a usageError for flags that contradict one another.
func (t *trustFlags) check() error {
	return firstMisuse([]misuse{
		{len(t.digests) > 0 && (t.signature != "" || t.key != "" || len(t.roots) > 0), "--digest and a signature exclude each other"},
		{t.signature != "" && t.key == "" && len(t.roots) == 0, "--signature needs --key or --certificate-chain: whom to trust"},
		{t.key != "" && len(t.roots) > 0, "--key and --certificate-chain exclude each other"},
		{len(t.roots) > 0 && t.signature == "", "--certificate-chain needs --signature: the bundle to check"},
		{t.identity != "" && len(t.roots) == 0, "--certificate-identity needs --certificate-chain: the roots to trust"},
	})
}

// apply sets opts.Trust, so that the model returns no byte that is not verified, and signer, if a flag says whom to trust.
// It fails if flags contradict one another, or if a key or bundle cannot be read or does not verify.
func (t *trustFlags) apply(opts *loader.Options) error {
	err := t.check()
	switch {
	case err != nil:
	case len(t.digests) > 0:
		opts.Trust, err = t.fileDigests()
	case t.signature != "":
		opts.Trust, err = t.verifiedStatement()
	case t.key != "":
		var key crypto.PublicKey
		if key, err = trust.ReadPublicKey(t.key); err != nil {
			return err
		}
		opts.Trust, err = trust.NewEmbedded(key)
		t.signer, err = keyName(key), withPath(t.key, err)
	}
	return err
}

// fileDigests returns the Trust of --digest. Two digests of one file are a usageError.
func (t *trustFlags) fileDigests() (*trust.FileDigests, error) {
	files := make(map[string]string)
	for _, text := range t.digests {
		name, digest, ok := strings.Cut(text, "=")
		if !ok {
			name, digest = "", text
		}
		if files[name] != "" {
			return nil, usageError{fmt.Errorf("--digest: two for the file %q", name)}
		}
		files[name] = digest
	}
	d, err := trust.NewFileDigests(files)
	if err != nil {
		return nil, usageError{fmt.Errorf("--digest: %w", err)}
	}
	return d, nil
}

// verifiedStatement returns the statement of the bundle that --signature names, and sets signer. It fails if the signature
// is neither by --key nor by a certificate that leads to --certificate-chain.
func (t *trustFlags) verifiedStatement() (*trust.Statement, error) {
	var key crypto.PublicKey // nil for certificates
	var keyErr error
	if t.key != "" {
		key, keyErr = trust.ReadPublicKey(t.key)
	}
	roots, rootsErr := trust.ReadCertificates(t.roots...)
	text, err := os.ReadFile(t.signature)
	if err := cmp.Or(keyErr, rootsErr, err); err != nil {
		return nil, err
	}
	bundle, err := trust.ParseBundle(text)
	var s *trust.Statement
	switch {
	case err != nil:
	case key != nil:
		s, err = bundle.VerifyKey(key)
		t.signer = keyName(key)
	default:
		if s, err = bundle.VerifyCertificate(&trust.CertificateOptions{Roots: roots, Identity: t.identity}); err == nil {
			t.signer = bundle.Certificate().Subject.String()
		}
	}
	return s, withPath(t.signature, err)
}

// keyName names a key: Ed25519 keys by themselves, as files hold them, others by their hint in bundles.
func keyName(key crypto.PublicKey) string {
	if k, ok := key.(ed25519.PublicKey); ok {
		return "Ed25519 " + base64.StdEncoding.EncodeToString(k)
	}
	hint, _ := trust.Hint(key) // which was used before
	return "key " + hint
}

// signedRoot returns the directory that the statement is about, if the user named path: path itself, or
// the directory of the file path unless that alone is signed.
func signedRoot(path string, s *trust.Statement) string {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return path
	}
	if files := s.Files(); len(files) == 1 && (files[0] == "." || files[0] == filepath.Base(path)) {
		return path
	}
	return filepath.Dir(path)
}
