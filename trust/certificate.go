package trust

import (
	"cmp"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// check returns an error if a signature by leaf's key is not trusted. between are certificates that may lead to a root.
func (o *CertificateOptions) check(leaf *x509.Certificate, between []*x509.Certificate) error {
	verify := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: o.At, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	for _, c := range o.Roots {
		verify.Roots.AddCert(c)
	}
	for _, c := range between {
		verify.Intermediates.AddCert(c)
	}
	if o.At.IsZero() {
		verify.CurrentTime = time.Now()
	}
	chains, err := leaf.Verify(verify)
	if err != nil {
		return err
	}
	for _, chain := range chains { // there may be several ways to a root
		unfit := checkUse(chain)
		if unfit == nil {
			err = nil
			break
		}
		err = cmp.Or(err, unfit)
	}
	if names := identities(leaf); err == nil && o.Identity != "" && !slices.Contains(names, o.Identity) {
		for i, name := range names {
			names[i] = quote(name)
		}
		err = fmt.Errorf("it is not one of %s, but of %s", quote(o.Identity), strings.Join(names, ", "))
	}
	return err
}

// The extensions that limit the use of a certificate (RFC 5280).
var (
	keyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	extendedKeyUsage = asn1.ObjectIdentifier{2, 5, 29, 37}
)

// checkUse returns an error if a chain, the signer's certificate first, is not for signing models.
func checkUse(chain []*x509.Certificate) error {
	switch leaf := chain[0]; {
	case !has(leaf, keyUsage):
		return errors.New("it has no key usage, which must be digitalSignature")
	case leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return errors.New("its key usage is not digitalSignature")
	}
	for i, c := range chain {
		switch {
		case !has(c, extendedKeyUsage), slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageCodeSigning):
		case i == 0:
			return errors.New("its extended key usage is not codeSigning")
		case !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny):
			return fmt.Errorf("that of %s above it has an extended key usage that is not codeSigning", quote(c.Subject.String()))
		}
	}
	return nil
}

// has reports whether c has the extension called id.
func has(c *x509.Certificate, id asn1.ObjectIdentifier) bool {
	for _, e := range c.Extensions {
		if e.Id.Equal(id) {
			return true
		}
	}
	return false
}

// identities lists the names of a certificate's owner, the subject first.
func identities(c *x509.Certificate) []string {
	names := slices.Concat([]string{c.Subject.String()}, c.EmailAddresses, c.DNSNames)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}
