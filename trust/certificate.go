package trust

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tensormap/tensormap/layout"
)

// checkSigner returns an error unless a chain leads from leaf, the signer's certificate, over some of intermediates to one of o.Roots.
// The chain must be for signing, and leaf must have the name o.Identity if that is set.
func (o *CertificateOptions) checkSigner(leaf *x509.Certificate, intermediates []*x509.Certificate) error {
	verify := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: o.At, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	for _, c := range o.Roots {
		verify.Roots.AddCert(c)
	}
	for _, c := range intermediates {
		verify.Intermediates.AddCert(c)
	}
	if o.At.IsZero() {
		verify.CurrentTime = time.Now()
	}
	chains, err := leaf.Verify(verify)
	if err != nil {
		return err
	}
	isFit := func(chain []*x509.Certificate) bool { return checkChainUse(chain) == nil }
	if !slices.ContainsFunc(chains, isFit) { // there may be several ways to a root
		err = checkChainUse(chains[0])
	}
	if names := certificateNames(leaf); err == nil && o.Identity != "" && !slices.Contains(names, o.Identity) {
		for i, name := range names {
			names[i] = layout.Quote(name)
		}
		err = fmt.Errorf("it is not one of %s, but of %s", layout.Quote(o.Identity), strings.Join(names, ", "))
	}
	return err
}

// The extensions that limit the use of a certificate (RFC 5280).
var (
	keyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	extendedKeyUsage = asn1.ObjectIdentifier{2, 5, 29, 37}
)

// checkChainUse returns an error if the key usages of a chain, the signer's certificate first, do not allow to sign: see
// Bundle.VerifyCertificate.
func checkChainUse(chain []*x509.Certificate) error {
	switch leaf := chain[0]; {
	case !hasExtension(leaf, keyUsage):
		return errors.New("it has no key usage, which must be digitalSignature")
	case leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return errors.New("its key usage is not digitalSignature")
	}
	for i, c := range chain {
		switch {
		case !hasExtension(c, extendedKeyUsage), slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageCodeSigning):
		case i == 0:
			return errors.New("its extended key usage is not codeSigning")
		case !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny):
			return fmt.Errorf("the certificate of %s above it has an extended key usage that is not codeSigning", layout.Quote(c.Subject.String()))
		}
	}
	return nil
}

// hasExtension reports whether c has the extension called id.
func hasExtension(c *x509.Certificate, id asn1.ObjectIdentifier) bool {
	return slices.ContainsFunc(c.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(id) })
}

// certificateNames returns the names in a certificate: the subject, then email addresses, DNS names, URIs and IP addresses.
func certificateNames(c *x509.Certificate) []string {
	names := slices.Concat([]string{c.Subject.String()}, c.EmailAddresses, c.DNSNames)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}
