// Package keyless verifies bundles of OpenSSF Model Signing whose signer is an identity, such as an
// email address or a workflow: Sigstore's method, without a key that anybody keeps. It asks no server.
// The caller gives the trusted root, which names Sigstore's certificate authorities and logs.
//
// The package is a module of its own, because it needs sigstore-go. It writes no signatures.
package keyless

import (
	"errors"
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/trust"
)

// Signer says whose signatures are trusted. Both fields are compared as they are, and neither may be
// empty.
type Signer struct {
	// Identity is what the certificate names: an email address, or the URL of a workflow.
	Identity string
	// Issuer is the URL of the OpenID Connect provider that knows the identity.
	Issuer string
}

// Verify checks the bundle in text against a trusted root (Sigstore's trusted_root.json). It returns what
// is signed, as trust.Bundle.VerifyKey does for keys. The log must have an entry of the signature, and
// the signature's time must lie within the short life of the certificate. The error is
// trust.ErrSignature, trust.ErrKey for an unusable root or signer, or about the bundle's form.
func Verify(text, trustedRoot []byte, signer Signer) (*trust.Statement, error) {
	if signer.Identity == "" || signer.Issuer == "" {
		return nil, fmt.Errorf("%w: identity and issuer must both be given", trust.ErrKey)
	}
	parsed, err := trust.ParseBundle(text)
	if err != nil {
		return nil, err
	}
	if parsed.Method != trust.BySigstore {
		return nil, fmt.Errorf("%w: the bundle is signed by %s, not by %s", trust.ErrSignature, parsed.Method, trust.BySigstore)
	}
	trusted, err := root.NewTrustedRootFromJSON(trustedRoot)
	if err != nil {
		return nil, fmt.Errorf("%w: trusted root: %w", trust.ErrKey, err)
	}
	payload, err := verified(text, trusted, signer)
	if err != nil {
		return nil, err
	}
	return trust.ParseStatement(payload)
}

// verified returns the payload of a bundle once its signature is known to be the signer's.
func verified(text []byte, trusted root.TrustedMaterial, signer Signer) ([]byte, error) {
	b := new(bundle.Bundle)
	if err := b.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("bundle: %w: %w", layout.ErrInvalid, err)
	}
	who, err := verify.NewShortCertificateIdentity(signer.Issuer, "", signer.Identity, "")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", trust.ErrKey, err)
	}
	verifier, err := verify.NewVerifier(trusted, verify.WithSignedCertificateTimestamps(1), verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", trust.ErrKey, err)
	}
	// The statement says which files are signed; trust compares them.
	if _, err := verifier.Verify(b, verify.NewPolicy(verify.WithoutArtifactUnsafe(), verify.WithCertificateIdentity(who))); err != nil {
		return nil, fmt.Errorf("%w: %w", trust.ErrSignature, err)
	}
	content, err := b.SignatureContent()
	if err != nil {
		return nil, fmt.Errorf("bundle: %w: %w", layout.ErrInvalid, err)
	}
	envelope := content.EnvelopeContent()
	if envelope == nil {
		return nil, errors.New("bundle: no envelope")
	}
	return envelope.RawEnvelope().DecodeB64Payload()
}
