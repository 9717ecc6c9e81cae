package trust

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	_ "crypto/sha256" // with the next, for hashes
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
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

// maxChain bounds the certificates of a bundle. A chain has a handful.
const maxChain = 32

// bundleLimits bound a bundle and the signed statement: hundreds of bytes for each of a million files.
var bundleLimits = layout.Limits{HeaderBytes: 360 << 20, Depth: 32}

// Method tells by what a bundle identifies its signer.
type Method string

const (
	ByKey         Method = "key"         // a public key that the user has
	ByCertificate Method = "certificate" // a chain to a certificate that the user has
	BySigstore    Method = "sigstore"    // which package trust/keyless verifies
)

// Bundle is a parsed bundle. Nothing in it can be trusted before one of its Verify methods has
// returned its Statement.
type Bundle struct {
	Method Method

	hint    string              // of ByKey: the hash of the key
	chain   []*x509.Certificate // of ByCertificate, the signer's first
	payload []byte              // the signed statement
	sig     []byte
}

// scanner reads the JSON of a bundle or a statement.
type scanner = jsontext.Scanner

// ParseBundle reads a bundle: a file of JSON in the form of Sigstore bundles 0.3, with a DSSE envelope
// that has exactly one signature. Two forms of older writers are read too: a key in place of its
// hint, and no list of log entries.
func ParseBundle(text []byte) (*Bundle, error) {
	b := new(Bundle)
	js := jsontext.New(text, layout.Unknown, 0, "JSON", bundleLimits.WithDefaults())
	n := 0
	for key, at := range js.Members("an object") {
		n++
		switch key {
		case "mediaType":
			readExpected(&js, "mediaType", bundleType)
		case "verificationMaterial":
			b.readMaterial(&js)
		case "dsseEnvelope":
			b.readEnvelope(&js)
		default:
			js.Fail(at, layout.ErrInvalid, "unknown member %s", layout.Quote(key))
		}
	}
	if js.End(); n != 3 {
		js.Fail(0, layout.ErrInvalid, "it must have mediaType, verificationMaterial and dsseEnvelope")
	}
	if err := js.Err(); err != nil {
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

// invalid returns an error about the content of a statement: one that wraps layout.ErrInvalid.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", layout.ErrInvalid, fmt.Sprintf(format, args...))
}

// readExpected reads the string called name, which must be want.
func readExpected(js *scanner, name, want string) {
	at := js.Offset()
	if got := js.Text(); got != want {
		js.Fail(at, layout.ErrInvalid, "%s %s, not %s", name, layout.Quote(got), want)
	}
}

// fieldValue is what an error calls the value of a field whose name precedes it.
const fieldValue = "it"

// readEnvelope sets payload and signature from a DSSE envelope, which must have exactly one signature.
func (b *Bundle) readEnvelope(js *scanner) {
	at := js.Offset()
	js.Record(at, "an object", []string{"payloadType", "payload", "signatures"}, func(i int) {
		switch i {
		case 0:
			readExpected(js, "payloadType", payloadType)
		case 1:
			b.payload = encrypted.ReadBase64(js, fieldValue, -1)
		case 2:
			n := 0
			for js.Open('[', "an array"); js.More(']'); n++ {
				js.Record(js.Offset(), "an object", []string{"sig"}, func(int) { b.sig = encrypted.ReadBase64(js, fieldValue, -1) })
			}
			if n != 1 {
				js.Fail(at, layout.ErrInvalid, "%d signatures, where exactly one is allowed", n)
			}
		}
	})
}

// readMaterial sets the method, and the key's hint or the certificates, from verificationMaterial. It must be of exactly
// one method, and by Sigstore have log entries.
func (b *Bundle) readMaterial(js *scanner) {
	at := js.Offset()
	methods, entries := 0, 0
	for key := range js.Members("an object") {
		switch key {
		case "publicKey":
			b.Method, methods = ByKey, methods+1
			b.readKey(js)
		case "x509CertificateChain":
			b.Method, methods = ByCertificate, methods+1
			js.Record(js.Offset(), "an object", []string{"certificates"}, func(int) { b.readChain(js) })
		case "certificate":
			b.Method, methods = BySigstore, methods+1
		case "tlogEntries":
			if js.Next() == '[' {
				entries = js.Skip()
			}
		}
	}
	if methods != 1 {
		js.Fail(at, layout.ErrInvalid, "verificationMaterial must have one of publicKey, x509CertificateChain and certificate")
	}
	if b.Method == BySigstore && entries == 0 {
		js.Fail(at, layout.ErrInvalid, "no tlogEntries")
	}
}

// readKey sets the hint from publicKey. Writers before 1.1.0 have the PEM text of the key instead: then it computes the hint. One of
// both must be there.
func (b *Bundle) readKey(js *scanner) {
	at := js.Offset()
	n := 0
	for key := range js.Members("an object") {
		switch key {
		case "hint":
			b.hint, n = js.Text(), n+1
		case "rawBytes":
			n++
			key, err := ParsePublicKey(encrypted.ReadBase64(js, "rawBytes", -1))
			if err == nil {
				b.hint, err = Hint(key)
			}
			if err != nil {
				js.Fail(at, layout.ErrInvalid, "rawBytes: %v", err)
			}
		}
	}
	if n != 1 {
		js.Fail(at, layout.ErrInvalid, "publicKey must have one of hint and rawBytes")
	}
}

// readChain sets the chain from a list of 1 to maxChain certificates.
func (b *Bundle) readChain(js *scanner) {
	at := js.Offset()
	for js.Open('[', "an array"); js.More(']'); {
		if len(b.chain) == maxChain {
			js.Fail(at, layout.ErrLimit, "more than %d certificates", maxChain)
		}
		js.Record(js.Offset(), "an object", []string{"rawBytes"}, func(int) {
			c, err := x509.ParseCertificate(encrypted.ReadBase64(js, fieldValue, -1))
			if err != nil {
				js.Fail(at, layout.ErrInvalid, "certificate %d: %v", len(b.chain), err)
			}
			b.chain = append(b.chain, c)
		})
	}
	if len(b.chain) == 0 {
		js.Fail(at, layout.ErrInvalid, "no certificate")
	}
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
	if b.Method == m {
		return nil
	}
	hint := ""
	if b.Method == BySigstore {
		hint = "; the command tensormap-keyless and package trust/keyless verify it"
	}
	return fmt.Errorf("%w: the bundle is signed by %s, not by %s%s", ErrSignature, b.Method, m, hint)
}

// VerifyKey checks the signature of a bundle ByKey against the key that the caller trusts. It returns
// what is signed. The error is ErrSignature, ErrKey, or about the statement.
func (b *Bundle) VerifyKey(key crypto.PublicKey) (*Statement, error) {
	if err := b.checkMethod(ByKey); err != nil {
		return nil, err
	}
	return b.verifiedStatement(key)
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
		return nil, fmt.Errorf("%w: certificate of %s: %w", ErrSignature, layout.Quote(leaf.Subject.String()), err)
	}
	return b.verifiedStatement(leaf.PublicKey)
}

// verifiedStatement checks the signature by key, and the hint of a bundle ByKey. It returns the statement. It fails with ErrKey for an
// unusable key, with ErrSignature, or for an invalid statement. Signatures of version 0.2 are valid too: over the message of paeOfRepr,
// hashed by SHA-256 for certificates of any curve.
func (b *Bundle) verifiedStatement(public crypto.PublicKey) (*Statement, error) {
	key, h, err := bundleKey(public)
	if err != nil {
		return nil, err
	}
	older := crypto.SHA256
	if b.Method == ByKey {
		hint, err := Hint(key)
		if err != nil {
			return nil, err
		}
		if b.hint != hint {
			return nil, fmt.Errorf("%w: it is of the key %s, not of the trusted one, %s", ErrSignature, layout.Quote(b.hint), layout.Quote(hint))
		}
		older = h
	}
	if !ecdsa.VerifyASN1(key, hashOf(h, pae, b.payload), b.sig) && !ecdsa.VerifyASN1(key, hashOf(older, paeOfRepr, b.payload), b.sig) {
		return nil, fmt.Errorf("%w: it does not fit the statement and the key", ErrSignature)
	}
	return ParseStatement(b.payload)
}

// bundleKey returns key and the hash function that bundles have for it. It fails with ErrKey unless the key is ECDSA on a known curve.
func bundleKey(key crypto.PublicKey) (*ecdsa.PublicKey, crypto.Hash, error) {
	ec, ok := key.(*ecdsa.PublicKey)
	if !ok {
		return nil, 0, fmt.Errorf("%w: bundles are signed with ECDSA keys (P-256, P-384 or P-521), not with %s", ErrKey, keyKind(key))
	}
	return ec, hashes[ec.Curve], checkUsable(ec)
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
	if bytes.IndexByte(payload, '\'') >= 0 && bytes.IndexByte(payload, '"') < 0 {
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
	public, h, err := bundleKey(key.Public())
	if err != nil {
		return nil, err
	}
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
			return nil, fmt.Errorf("%w: certificate of %s: %w", ErrKey, layout.Quote(chain[0].Subject.String()), err)
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
