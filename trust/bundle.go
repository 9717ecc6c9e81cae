package trust

import (
	"bufio"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	_ "crypto/sha256" // with the next, for hashes
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// The constants of a bundle (OpenSSF Model Signing 1.0).
const (
	anyBundleType = "application/vnd.dev.sigstore.bundle" // what the type begins with in every version
	bundleType    = anyBundleType + ".v0.3+json"
	payloadType   = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://model_signing/signature/v1.0"
	digestsType   = "https://model_signing/Digests/v0.1" // of Python's model_signing 0.2
)

// payloadBytes bounds the signed statement: hundreds of bytes for each of a million files.
const payloadBytes = 256 << 20

// maxChain bounds the certificates of a bundle. A chain has a handful.
const maxChain = 32

var bundleLimits = layout.Limits{HeaderBytes: payloadBytes/3*4 + (1 << 20), Depth: 32}

// Method tells by what a bundle identifies its signer.
type Method string

const (
	ByKey         Method = "key"         // a public key that the user has
	ByCertificate Method = "certificate" // a chain to a certificate that the user has
	BySigstore    Method = "sigstore"    // which package trust/keyless verifies
)

// materialKeys are the members of verificationMaterial that stand for the methods.
var materialKeys = map[Method]string{ByKey: "publicKey", ByCertificate: "x509CertificateChain", BySigstore: "certificate"}

// Bundle is a parsed bundle. Nothing in it can be trusted before one of its Verify methods has
// returned its Statement.
type Bundle struct {
	Method Method

	hint    string              // of ByKey: the hash of the key
	chain   []*x509.Certificate // of ByCertificate, the signer's first
	payload []byte              // the signed statement
	sig     []byte
}

// ParseBundle reads a bundle: a file of JSON in the form of Sigstore bundles 0.3, with a DSSE envelope
// that has exactly one signature. Two forms of older writers are read too: a key in place of its
// hint, and no list of log entries.
func ParseBundle(text []byte) (*Bundle, error) {
	b, err := parseBundle(text)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", withOffset(err))
	}
	return b, nil
}

// withOffset returns a *layout.FormatError as an error with its offset, field and reason, but without the name of a format. Other
// errors it returns as they are.
func withOffset(err error) error {
	fe, ok := errors.AsType[*layout.FormatError](err)
	if !ok {
		return err
	}
	return fmt.Errorf("offset %d: %s: %s (%w)", fe.Offset, fe.Field, fe.Reason, fe.Err)
}

// parseBundle does what ParseBundle does. Its errors do not say that they are about a bundle.
func parseBundle(text []byte) (*Bundle, error) {
	md, err := jsontext.Parse(text, layout.Unknown, 0, "JSON", bundleLimits.WithDefaults())
	if err != nil {
		return nil, err
	}
	for key := range md.All() {
		if key != "mediaType" && key != "verificationMaterial" && key != "dsseEnvelope" {
			return nil, invalid("unknown member %s", quote(key))
		}
	}
	if media, err := member[string](md, "mediaType"); err != nil || media != bundleType {
		return nil, cmp.Or(err, invalid("mediaType %s, not %s", quote(media), bundleType))
	}
	envelope, err := member[layout.Metadata](md, "dsseEnvelope")
	if err != nil {
		return nil, err
	}
	b := new(Bundle)
	if err := b.parseEnvelope(envelope); err != nil {
		return nil, fmt.Errorf("dsseEnvelope: %w", err)
	}
	material, err := member[layout.Metadata](md, "verificationMaterial")
	if err == nil {
		err = b.parseMaterial(material)
	}
	return b, err
}

// invalid returns an error about the content of a bundle or statement: one that wraps layout.ErrInvalid.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", layout.ErrInvalid, fmt.Sprintf(format, args...))
}

// member returns the member of md called key. It fails if there is none, or if it is null or not of type T.
func member[T any](md layout.Metadata, key string) (v T, err error) {
	found, ok := md.Get(key)
	if !ok || found == nil {
		return v, invalid("no %s", key)
	}
	v, ok = found.(T)
	if !ok {
		return v, invalid("%s has the wrong type", key)
	}
	return v, nil
}

// eachObject calls f with each element of an array of objects, the member of md called key, and returns their number. It fails if there
// is no such array, if an element is no object, or if f does.
func eachObject(md layout.Metadata, key string, f func(object layout.Metadata) error) (n int, err error) {
	elements, err := member[[]any](md, key)
	if err != nil {
		return 0, err
	}
	for _, e := range elements {
		object, ok := e.(layout.Metadata)
		if !ok {
			return n, invalid("%s has an element that is no object", key)
		}
		if err := f(object); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// decode64 decodes base64. It fails unless text is of the standard alphabet, padded, canonical and without line breaks.
func decode64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, invalid("a line break in base64")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, invalid("not base64 (standard alphabet, padded): %v", err)
	}
	return b, nil
}

// base64Member returns the bytes of the member of md called key, which has them in base64. It fails if there is no such string, or if
// decode64 does.
func base64Member(md layout.Metadata, key string) ([]byte, error) {
	text, err := member[string](md, key)
	if err != nil {
		return nil, err
	}
	b, err := decode64(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return b, nil
}

// parseEnvelope sets payload and signature from a DSSE envelope. It fails for a payload that is too large or of another type, and unless
// there is exactly one signature.
func (b *Bundle) parseEnvelope(md layout.Metadata) (err error) {
	if typ, err := member[string](md, "payloadType"); err != nil || typ != payloadType {
		return cmp.Or(err, invalid("payloadType %s, not %s", quote(typ), payloadType))
	}
	if b.payload, err = base64Member(md, "payload"); err != nil {
		return err
	}
	if len(b.payload) > payloadBytes {
		return fmt.Errorf("payload: %w: %d bytes, more than %d", layout.ErrLimit, len(b.payload), payloadBytes)
	}
	n, err := eachObject(md, "signatures", func(signature layout.Metadata) (err error) {
		if b.sig == nil {
			b.sig, err = base64Member(signature, "sig")
		}
		return err
	})
	if err == nil && n != 1 {
		err = invalid("%d signatures, where exactly one is allowed", n)
	}
	return err
}

// parseMaterial sets the method, and the key's hint or the certificates, from verificationMaterial. It fails unless that is of exactly
// one method, and for a bundle by Sigstore without log entries.
func (b *Bundle) parseMaterial(md layout.Metadata) error {
	var by []Method
	for _, m := range []Method{ByKey, ByCertificate, BySigstore} {
		if _, ok := md.Get(materialKeys[m]); ok {
			by = append(by, m)
		}
	}
	if len(by) != 1 {
		return invalid("verificationMaterial must have one of publicKey, x509CertificateChain and certificate")
	}
	if b.Method = by[0]; b.Method == BySigstore {
		n, err := eachObject(md, "tlogEntries", func(layout.Metadata) error { return nil })
		if err == nil && n == 0 {
			err = invalid("tlogEntries is empty")
		}
		return err
	}
	object, err := member[layout.Metadata](md, materialKeys[b.Method])
	switch {
	case err != nil:
		return err
	case b.Method == ByKey:
		return b.parseKey(object)
	}
	return b.parseChain(object)
}

// parseKey sets the hint from publicKey. Writers before 1.1.0 have the PEM text of the key instead: then it computes the hint. It fails
// if both or neither are there.
func (b *Bundle) parseKey(md layout.Metadata) (err error) {
	if _, older := md.Get("rawBytes"); older {
		if _, both := md.Get("hint"); both {
			return invalid("publicKey has both hint and rawBytes")
		}
		text, err := base64Member(md, "rawBytes")
		if err != nil {
			return err
		}
		key, err := ParsePublicKey(text)
		if err != nil {
			return fmt.Errorf("rawBytes: %w", err)
		}
		b.hint, err = Hint(key)
		return err
	}
	b.hint, err = member[string](md, "hint")
	return err
}

// parseChain sets the chain from x509CertificateChain. It fails for a malformed certificate, and unless there are 1 to maxChain.
func (b *Bundle) parseChain(md layout.Metadata) error {
	n, err := eachObject(md, "certificates", func(object layout.Metadata) error {
		if len(b.chain) == maxChain {
			return fmt.Errorf("%w: a chain of more than %d certificates", layout.ErrLimit, maxChain)
		}
		der, err := base64Member(object, "rawBytes")
		if err != nil {
			return err
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return invalid("certificate %d: %v", len(b.chain), err)
		}
		b.chain = append(b.chain, c)
		return nil
	})
	if err == nil && n == 0 {
		err = invalid("a chain of no certificates")
	}
	return err
}

// Certificate returns the signer's certificate of a bundle ByCertificate, else nil.
func (b *Bundle) Certificate() *x509.Certificate {
	if len(b.chain) == 0 {
		return nil
	}
	return b.chain[0]
}

// checkMethod returns an error unless the bundle is signed by method m.
func (b *Bundle) checkMethod(m Method) error {
	switch b.Method {
	case m:
		return nil
	case BySigstore:
		return fmt.Errorf("%w: the bundle is signed by %s, not by %s; the command tensormap-keyless and package trust/keyless verify it", ErrSignature, b.Method, m)
	}
	return fmt.Errorf("%w: the bundle is signed by %s, not by %s", ErrSignature, b.Method, m)
}

// VerifyKey checks the signature of a bundle ByKey against the key that the caller trusts. It returns
// what is signed. The error is ErrSignature, ErrKey, or about the statement.
func (b *Bundle) VerifyKey(key crypto.PublicKey) (*Statement, error) {
	if err := b.checkMethod(ByKey); err != nil {
		return nil, err
	}
	ec, ok := key.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%w: bundles are signed with ECDSA keys (P-256, P-384 or P-521), not with %s", ErrKey, keyKind(key))
	}
	hint, err := Hint(ec)
	if err != nil {
		return nil, err
	}
	if b.hint != hint {
		return nil, fmt.Errorf("%w: it is of the key %s, not of the trusted one, %s", ErrSignature, quoteStart(b.hint), quoteStart(hint))
	}
	return b.verifiedStatement(ec)
}

// quoteStart returns the first 16 characters of a hash in quotes, for an error.
func quoteStart(hint string) string {
	if len(hint) > 16 {
		hint = hint[:16] + "…"
	}
	return quote(hint)
}

// CertificateOptions say whose certificates VerifyCertificate trusts.
type CertificateOptions struct {
	// Roots are the certificates to which a chain must lead. Without any, nothing is trusted.
	Roots []*x509.Certificate
	// Identity, if set, must be a name of the signer's certificate: its subject in the form of RFC 2253
	// ("CN=signer,O=Acme"), or an email address, DNS name, URI or IP address that it has. Names are compared as
	// they are. Without it, every certificate below Roots is trusted that is for signing.
	Identity string
	// At is when all certificates must be valid. The zero time means now.
	At time.Time
}

// VerifyCertificate checks the signature of a bundle ByCertificate. A chain must lead from the
// signer's certificate to one of opts.Roots. The key usage of the signer's certificate must have
// digitalSignature. Each certificate of the chain that has an extended key usage must have codeSigning there.
// Authorities may have anyExtendedKeyUsage instead.
func (b *Bundle) VerifyCertificate(opts *CertificateOptions) (*Statement, error) {
	if err := b.checkMethod(ByCertificate); err != nil {
		return nil, err
	}
	if opts == nil {
		opts = new(CertificateOptions)
	}
	leaf := b.chain[0]
	if err := opts.checkSigner(leaf, b.chain[1:]); err != nil {
		return nil, fmt.Errorf("%w: certificate of %s: %w", ErrSignature, quote(leaf.Subject.String()), err)
	}
	ec, ok := leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%w: certificate of %s: %s; bundles are signed with ECDSA keys", ErrKey, quote(leaf.Subject.String()), keyKind(leaf.PublicKey))
	}
	return b.verifiedStatement(ec)
}

// verifiedStatement checks the signature by key, and returns the statement. It fails with ErrKey for an unusable key, with ErrSignature,
// or for an invalid statement. Signatures of version 0.2 are valid too: over the message of paeOfRepr, hashed by SHA-256 for
// certificates of any curve.
func (b *Bundle) verifiedStatement(key *ecdsa.PublicKey) (*Statement, error) {
	if err := checkUsable(key); err != nil {
		return nil, err
	}
	h := hashes[key.Curve]
	older := h
	if b.Method == ByCertificate {
		older = crypto.SHA256
	}
	if !ecdsa.VerifyASN1(key, hashOf(h, pae, b.payload), b.sig) && !ecdsa.VerifyASN1(key, hashOf(older, paeOfRepr, b.payload), b.sig) {
		return nil, fmt.Errorf("%w: it does not fit the statement and the key", ErrSignature)
	}
	return ParseStatement(b.payload)
}

// hashes has the hash function that is used with keys on a curve.
var hashes = map[elliptic.Curve]crypto.Hash{elliptic.P256(): crypto.SHA256, elliptic.P384(): crypto.SHA384, elliptic.P521(): crypto.SHA512}

// hashOf returns the hash of the message that writeMessage, pae or paeOfRepr, writes for a payload.
func hashOf(h crypto.Hash, writeMessage func(w *bufio.Writer, payload []byte), payload []byte) []byte {
	state := h.New()
	w := bufio.NewWriter(state)
	writeMessage(w, payload)
	w.Flush()
	return state.Sum(nil)
}

// pae writes the message that a signature of DSSE is over: the pre-authentication encoding (PAE) of a payload.
func pae(w *bufio.Writer, payload []byte) {
	fmt.Fprintf(w, "DSSEv1 %d %s %d ", len(payloadType), payloadType, len(payload))
	w.Write(payload)
}

// paeOfRepr writes the message that version 0.2 of Python's model_signing signed: it printed the
// payload as Python source.
func paeOfRepr(w *bufio.Writer, payload []byte) {
	fmt.Fprintf(w, "DSSEV1 %d %s %d b", len(payloadType), payloadType, len(payload))
	quote := byte('\'')
	if slices.Contains(payload, '\'') && !slices.Contains(payload, '"') {
		quote = '"'
	}
	w.WriteByte(quote)
	for _, c := range payload {
		switch {
		case c == quote || c == '\\':
			w.Write([]byte{'\\', c})
		case c == '\t':
			w.WriteString(`\t`)
		case c == '\n':
			w.WriteString(`\n`)
		case c == '\r':
			w.WriteString(`\r`)
		case c < ' ' || c > '~':
			fmt.Fprintf(w, `\x%02x`, c)
		default:
			w.WriteByte(c)
		}
	}
	w.WriteByte(quote)
}

// signBundle returns the bundle of a payload, signed by key. A chain, the signer's certificate first,
// makes it one ByCertificate.
func signBundle(payload []byte, key crypto.Signer, chain []*x509.Certificate) ([]byte, error) {
	public, ok := key.Public().(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%w: bundles are signed with ECDSA keys (P-256, P-384 or P-521), not with %s", ErrKey, keyKind(key.Public()))
	}
	if err := checkUsable(public); err != nil {
		return nil, err
	}
	h := hashes[public.Curve]
	sig, err := key.Sign(rand.Reader, hashOf(h, pae, payload), h)
	if err != nil {
		return nil, err
	}
	material := map[string]any{"tlogEntries": []any{}}
	if len(chain) > 0 {
		if !public.Equal(chain[0].PublicKey) {
			return nil, fmt.Errorf("%w: the certificate is not one of this key", ErrKey)
		}
		if err := checkChainUse(chain); err != nil { // nobody could verify the bundle
			return nil, fmt.Errorf("%w: certificate of %s: %w", ErrKey, quote(chain[0].Subject.String()), err)
		}
		var certificates []map[string][]byte
		for i, c := range chain {
			if i > 0 && c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil {
				continue // a root, which a bundle of Sigstore's format must not have
			}
			certificates = append(certificates, map[string][]byte{"rawBytes": c.Raw})
		}
		material["x509CertificateChain"] = map[string]any{"certificates": certificates}
	} else {
		hint, err := Hint(public)
		if err != nil {
			return nil, err
		}
		material["publicKey"] = map[string]string{"hint": hint}
	}
	return json.Marshal(struct {
		MediaType string         `json:"mediaType"`
		Material  map[string]any `json:"verificationMaterial"`
		Envelope  any            `json:"dsseEnvelope"`
	}{bundleType, material, map[string]any{
		"payload":     payload,
		"payloadType": payloadType,
		"signatures":  []any{map[string]any{"sig": sig, "keyid": ""}},
	}})
}

// parseUint returns the value of n, a whole number in JSON. It may be written as a float, as the reference client writes all numbers.
// ok is false if n is negative, has a fraction, or is a float beyond 2^53.
func parseUint(n string) (value uint64, ok bool) {
	if v, err := strconv.ParseUint(n, 10, 64); err == nil {
		return v, true
	}
	f, err := strconv.ParseFloat(n, 64)
	if err != nil || f < 0 || f > 1<<53 || f != float64(uint64(f)) {
		return 0, false
	}
	return uint64(f), true
}
