package trust

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
	"github.com/tensormap/tensormap/loader"
)

const fixtures = "../testdata/trust"

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(fixtures, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// statement verifies a fixture and returns what it says.
func statement(t testing.TB, name string) *Statement {
	t.Helper()
	b, err := ParseBundle(fixture(t, name+".sig"))
	if err != nil {
		t.Fatal(err)
	}
	var s *Statement
	if b.Method == ByCertificate {
		roots, err := ReadCertificates(filepath.Join(fixtures, "root.pem"))
		if err != nil {
			t.Fatal(err)
		}
		s, err = b.VerifyCertificate(&CertificateOptions{Roots: roots})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	key, err := ReadPublicKey(filepath.Join(fixtures, strings.TrimSuffix(name, "-spec")+".pub.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if s, err = b.VerifyKey(key); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBundlesOfPython verifies bundles that the reference client wrote, and models that differ from them.
func TestBundlesOfPython(t *testing.T) {
	for _, name := range []string{"p256", "p384", "p521", "certificate", "shards", "shards-spec", "old", "blake2", "blake3"} {
		t.Run(name, func(t *testing.T) {
			s := statement(t, name)
			if err := s.Verify(t.Context(), fixtures+"/model", nil); err != nil {
				t.Error(err)
			}
			dir := filepath.Join(t.TempDir(), "other")
			if err := os.CopyFS(dir, os.DirFS(fixtures+"/model")); err != nil {
				t.Fatal(err)
			}
			if err := s.Verify(t.Context(), dir, nil); err != nil {
				t.Error("copied:", err)
			}
			for _, change := range []struct {
				what string
				do   func() error
				want error
				in   string
			}{
				{"one more", func() error { return os.WriteFile(dir+"/more", []byte{1}, 0o666) }, ErrUnsigned, "more"},
				{"one less", func() error { return errors.Join(os.Remove(dir+"/more"), os.Remove(dir+"/a.b")) }, layout.ErrNotFound, "a.b"},
				{"changed", func() error {
					b, err := os.ReadFile(fixtures + "/model/a.b")
					b[3] ^= 1
					return errors.Join(err, os.WriteFile(dir+"/a.b", b, 0o666))
				}, layout.ErrChecksum, "a.b"},
				{"longer", func() error {
					b, err := os.ReadFile(fixtures + "/model/a.b")
					return errors.Join(err, os.WriteFile(dir+"/a.b", append(b, 0), 0o666))
				}, layout.ErrChecksum, "a.b"},
			} {
				if err := change.do(); err != nil {
					t.Fatal(err)
				}
				if err := s.Verify(t.Context(), dir, nil); !errors.Is(err, change.want) || !strings.Contains(err.Error(), change.in) {
					t.Errorf("%s: %v", change.what, err)
				}
			}
		})
	}
	if err := statement(t, "file").Verify(t.Context(), fixtures+"/model/model.safetensors", nil); err != nil {
		t.Error(err)
	}
	if err := statement(t, "file").Verify(t.Context(), fixtures+"/model/a.b", nil); !errors.Is(err, layout.ErrChecksum) {
		t.Error("another file:", err)
	}
	if err := statement(t, "file").Verify(t.Context(), fixtures+"/model", nil); !errors.Is(err, ErrUnsigned) {
		t.Error("a directory of several:", err)
	}
}

// historical returns the key and the root certificates of the specification's signers.
func historical(t *testing.T) (key crypto.PublicKey, roots []*x509.Certificate) {
	t.Helper()
	key, err := ReadPublicKey(fixtures + "/historical/signing-key-pub.pem")
	if err != nil {
		t.Fatal(err)
	}
	roots, err = ReadCertificates(fixtures + "/historical/ca-cert.pem")
	if err != nil {
		t.Fatal(err)
	}
	return key, roots
}

// TestSpecificationVectors reads the vectors of the specification.
func TestSpecificationVectors(t *testing.T) {
	key, roots := historical(t)
	read := func(file string) (*Bundle, *Statement, error) {
		b, err := ParseBundle(fixture(t, file))
		if err != nil {
			return nil, nil, err
		}
		s, err := ParseStatement(b.payload)
		return b, s, err
	}
	files, err := filepath.Glob(fixtures + "/spec/*/*.json")
	if err != nil || len(files) != 8 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		rel, err := filepath.Rel(fixtures, file)
		if err != nil {
			t.Fatal(err)
		}
		b, s, err := read(filepath.ToSlash(rel))
		switch folder := filepath.Base(filepath.Dir(file)); folder {
		case "valid":
			if err != nil || strings.Join(s.Files(), " ") != "signme-1 signme-2" {
				t.Errorf("%s: %v", rel, err)
				continue
			}
			switch b.Method {
			case ByKey:
				_, err = b.VerifyKey(key)
			case ByCertificate:
				_, err = b.VerifyCertificate(&CertificateOptions{Roots: roots})
			}
			if err != nil {
				t.Errorf("%s: %v", rel, err)
			}
		case "invalid-payload":
			if b == nil || err == nil || !strings.Contains(err.Error(), "predicateType") {
				t.Errorf("%s: %v", rel, err)
			}
		case "invalid":
			if b != nil || err == nil {
				t.Errorf("%s: %v", rel, err)
			}
		}
	}
}

// TestHistoricalBundles verifies models that earlier releases of the reference client signed, back to
// the first that wrote bundles.
func TestHistoricalBundles(t *testing.T) {
	key, roots := historical(t)
	dirs, err := filepath.Glob(fixtures + "/historical/v*")
	if err != nil || len(dirs) != 13 {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			b, err := ParseBundle(fixture(t, filepath.Join("historical", filepath.Base(dir), "model.sig")))
			if err != nil {
				t.Fatal(err)
			}
			verify := func() (*Statement, error) { return b.VerifyKey(key) }
			switch b.Method {
			case ByCertificate:
				verify = func() (*Statement, error) { return b.VerifyCertificate(&CertificateOptions{Roots: roots}) }
			case BySigstore: // which package keyless verifies
				if _, err := verify(); !errors.Is(err, ErrSignature) {
					t.Error(err)
				}
				return
			}
			s, err := verify()
			if err != nil {
				t.Fatal(err)
			}
			root := dir
			if s.Files()[0] == "." {
				root = dir + "/signme-1"
			}
			opts := &VerifyOptions{Bundle: dir + "/model.sig", Ignore: []string{"ignore-me"}}
			if err := s.Verify(t.Context(), root, opts); err != nil {
				t.Error(err)
			}
			b.payload = bytes.Replace(b.payload, []byte(`"name"`), []byte(`"Name"`), 1)
			if _, err := verify(); !errors.Is(err, ErrSignature) {
				t.Error("another payload:", err)
			}
		})
	}
}

// TestDigestsStatement reads statements of the reference client's release 0.2, and wrong ones.
func TestDigestsStatement(t *testing.T) {
	const sum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	make := func(subjects string) []byte {
		return []byte(`{"_type": "` + statementType + `", "subject": [` + subjects + `], "predicateType": "` + digestsType + `", "predicate": {"unused": "x"}}`)
	}
	subject := func(name, algorithm string) string {
		return `{"name": "` + name + `", "digest": {"sha256": "` + sum + `"}, "annotations": {"actual_hash_algorithm": "` + algorithm + `"}}`
	}
	s, err := ParseStatement(make(subject("b", "file-sha256") + "," + `{"name": "a/c", "digest": {"sha256": "` + sum + `"}}`))
	if err != nil || strings.Join(s.Files(), " ") != "a/c b" || s.AllowSymlinks {
		t.Fatal(s, err)
	}
	for what, c := range map[string]struct {
		payload []byte
		want    error
	}{
		"none":      {make(""), layout.ErrInvalid},
		"twice":     {make(subject("b", "file-sha256") + "," + subject("b", "file-sha256")), layout.ErrDuplicate},
		"algorithm": {make(subject("b", "file-blake3")), layout.ErrInvalid},
		"outside":   {make(subject("../b", "file-sha256")), layout.ErrInvalid},
		"no name":   {make(subject("", "file-sha256")), layout.ErrInvalid},
		"no digest": {make(`{"name": "b", "digest": {"sha512": "00"}}`), layout.ErrInvalid},
	} {
		if _, err := ParseStatement(c.payload); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestStatementRetains checks that a statement, which lives as long as a model, does not make the text of the payload do so too.
func TestStatementRetains(t *testing.T) {
	const size = 32 << 20
	payload := []byte(`{"unused": "` + strings.Repeat("x", size) + `", "_type": "` + statementType + `", "subject": [{"name": "b", "digest": {"sha256": "` +
		strings.Repeat("0f", sha256.Size) + `"}}], "predicateType": "` + digestsType + `", "predicate": {}}`)
	heapBytes := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heapBytes()
	s, err := ParseStatement(payload)
	if err != nil {
		t.Fatal(err)
	}
	if more := heapBytes() - before; more > size/2 {
		t.Errorf("%d bytes of memory for a statement of %d", more, len(payload))
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(payload)
}

// TestBase64Errors checks that an error about base64 names the field once.
func TestBase64Errors(t *testing.T) {
	for field, text := range map[string]string{
		"payload":  `{"dsseEnvelope": {"payload": "!"}}`,
		"sig":      `{"dsseEnvelope": {"signatures": [{"sig": "!"}]}}`,
		"rawBytes": `{"verificationMaterial": {"x509CertificateChain": {"certificates": [{"rawBytes": "!"}]}}}`,
	} {
		_, err := ParseBundle([]byte(text))
		if err == nil || !strings.Contains(err.Error(), field+": it is not canonical base64") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestBundleWrongKey has keys that are not the signer's.
func TestBundleWrongKey(t *testing.T) {
	p256, err := ParseBundle(fixture(t, "p256.sig"))
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range KeyTypes() {
		key, err := GenerateKey(typ)
		if err != nil {
			t.Fatal(err)
		}
		want := ErrSignature
		if typ == Ed25519 {
			want = ErrKey
		}
		if _, err := p256.VerifyKey(key.Public()); !errors.Is(err, want) {
			t.Errorf("%s: %v", typ, err)
		}
	}
	// The right hint, and the wrong signature.
	own := sign(t, nil, nil)
	other := mutate(t, own.bundle, func(b map[string]any) {
		b["dsseEnvelope"].(map[string]any)["signatures"] = decoded(t, sign(t, nil, nil).bundle)["dsseEnvelope"].(map[string]any)["signatures"]
	})
	parsed, err := ParseBundle(other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parsed.VerifyKey(own.key.Public()); !errors.Is(err, ErrSignature) {
		t.Error(err)
	}
}

func TestBundleCertificates(t *testing.T) {
	b, err := ParseBundle(fixture(t, "certificate.sig"))
	if err != nil {
		t.Fatal(err)
	}
	roots, err := ReadCertificates(fixtures + "/root.pem")
	if err != nil {
		t.Fatal(err)
	}
	for what, verify := range map[string]func() (*Statement, error){
		"no root": func() (*Statement, error) { return b.VerifyCertificate(&CertificateOptions{}) },
		"too early": func() (*Statement, error) {
			return b.VerifyCertificate(&CertificateOptions{Roots: roots, At: time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)})
		},
		"too late": func() (*Statement, error) {
			return b.VerifyCertificate(&CertificateOptions{Roots: roots, At: time.Date(2125, 1, 1, 0, 0, 0, 0, time.UTC)})
		},
		"as key": func() (*Statement, error) { return b.VerifyKey(b.Certificate().PublicKey) },
	} {
		if _, err := verify(); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if b.Certificate().Subject.CommonName != "signer" {
		t.Error(b.Certificate().Subject)
	}
}

// TestCertificatesForOthers has bundles of the reference client, which takes all whose certificates have
// digitalSignature or codeSigning (testdata/trust/make_certificates.py). Only those for signing code sign models, and
// those that are for nothing in particular.
func TestCertificatesForOthers(t *testing.T) {
	roots, err := ReadCertificates(fixtures + "/certificates/roots.pem")
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{ // why, or "" for those that are taken
		"code": "", "plain": "", "code-and-server": "", "authority-any": "",
		"server": "extended key usage", "client": "extended key usage", "ocsp": "extended key usage", "email": "extended key usage",
		"time": "extended key usage", "other": "extended key usage", "any": "extended key usage",
		"encipherment": "its key usage", "agreement": "its key usage", "no-key-usage": "no key usage", "nothing": "no key usage",
		"authority-server": `"CN=authority,O=Acme\\, Inc." above it`, "authority-other": "above it", "root-server": `"CN=root of root-server`,
	}
	files, err := filepath.Glob(fixtures + "/certificates/*.sig")
	if err != nil || len(files) != len(refused) {
		t.Fatal(files, err)
	}
	for name, why := range refused {
		b, err := ParseBundle(fixture(t, "certificates/"+name+".sig"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.VerifyCertificate(&CertificateOptions{Roots: roots})
		switch {
		case why == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case why == "":
			if err := s.Verify(t.Context(), fixtures+"/model/a", nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case !errors.Is(err, ErrSignature) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "CN=signer,O=Acme"):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCertificateIdentity pins the signer. The subject is as OpenSSL prints it with -nameopt RFC2253.
func TestCertificateIdentity(t *testing.T) {
	roots, err := ReadCertificates(fixtures + "/certificates/roots.pem")
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseBundle(fixture(t, "certificates/code.sig"))
	if err != nil {
		t.Fatal(err)
	}
	for identity, good := range map[string]bool{
		`CN=signer,O=Acme\, Inc.`: true, "models@acme.example": true, "models.acme.example": true, "https://acme.example/models": true,
		"signer": false, "CN=signer": false, "acme.example": false, "Models@acme.example": false, "https://acme.example/": false,
		`CN=authority,O=Acme\, Inc.`: false, "CN=other,O=Acme": false,
	} {
		_, err := b.VerifyCertificate(&CertificateOptions{Roots: roots, Identity: identity})
		if (err == nil) != good || !good && (!errors.Is(err, ErrSignature) || !strings.Contains(err.Error(), `"models@acme.example"`)) {
			t.Errorf("%s: %v", identity, err)
		}
	}
	// A name counts only if a root vouches for it.
	if _, err := b.VerifyCertificate(&CertificateOptions{Identity: "models@acme.example"}); !errors.Is(err, ErrSignature) {
		t.Error("without a root:", err)
	}
	if _, err := b.VerifyCertificate(nil); !errors.Is(err, ErrSignature) {
		t.Error("without options:", err)
	}
}

// TestSignCertificate signs by certificates that sign models, and by no others. A root stays out of the bundle.
func TestSignCertificate(t *testing.T) {
	key, err := GenerateKey(P256)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(usage x509.KeyUsage, extended []x509.ExtKeyUsage, parent *x509.Certificate, parentKey crypto.Signer, public crypto.PublicKey) *x509.Certificate {
		t.Helper()
		c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			KeyUsage: usage, ExtKeyUsage: extended, BasicConstraintsValid: true, IsCA: usage&x509.KeyUsageCertSign != 0}
		if parent == nil {
			c.Subject.CommonName, parent = "root", c
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, public, parentKey)
		if err == nil {
			c, err = x509.ParseCertificate(der)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	rootKey, err := GenerateKey(P384)
	if err != nil {
		t.Fatal(err)
	}
	root := issue(x509.KeyUsageCertSign, nil, nil, rootKey, rootKey.Public())
	code := issue(x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, root, rootKey, key.Public())
	server := issue(x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, root, rootKey, key.Public())
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(dir+"/f", []byte("f"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Sign(t.Context(), dir, out, key, &SignOptions{Chain: []*x509.Certificate{server, root}}); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "codeSigning") {
		t.Error("for servers:", err)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a bundle was written:", err)
	}
	if err := Sign(t.Context(), dir, out, key, &SignOptions{Chain: []*x509.Certificate{code, root}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseBundle(text)
	if err != nil || len(b.chain) != 1 {
		t.Fatalf("%d certificates, %v", len(b.chain), err)
	}
	if _, err := b.VerifyCertificate(&CertificateOptions{Roots: []*x509.Certificate{root}}); err != nil {
		t.Error(err)
	}
	// One that is its own root, for those who trust it alone.
	own := issue(x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, nil, key, key.Public())
	if err := Sign(t.Context(), dir, out, key, &SignOptions{Chain: []*x509.Certificate{own}}); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(out); err != nil {
		t.Fatal(err)
	}
	if b, err = ParseBundle(text); err != nil {
		t.Fatal(err)
	}
	if _, err := b.VerifyCertificate(&CertificateOptions{Roots: []*x509.Certificate{own}}); err != nil {
		t.Error(err)
	}
}

func decoded(t testing.TB, text []byte) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// mutate changes a document of JSON.
func mutate(t testing.TB, text []byte, change func(map[string]any)) []byte {
	t.Helper()
	m := decoded(t, text)
	change(m)
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type signedPayload struct {
	key     crypto.Signer
	payload []byte
	bundle  []byte
}

// sign signs the payload of p256.sig, changed. A nil key is a new one.
func sign(t testing.TB, key crypto.Signer, change func(map[string]any)) signedPayload {
	t.Helper()
	envelope := decoded(t, fixture(t, "p256.sig"))["dsseEnvelope"].(map[string]any)
	payload, err := base64.StdEncoding.DecodeString(envelope["payload"].(string))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		payload = mutate(t, payload, change)
	}
	return signPayload(t, key, payload)
}

func signPayload(t testing.TB, key crypto.Signer, payload []byte) signedPayload {
	t.Helper()
	if key == nil {
		var err error
		if key, err = GenerateKey(P256); err != nil {
			t.Fatal(err)
		}
	}
	bundle, err := signBundle(payload, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return signedPayload{key, payload, bundle}
}

// TestBundleEveryByte flips a bit of every byte of a bundle: none may pass for what it was, unless the
// byte means nothing.
func TestBundleEveryByte(t *testing.T) {
	text := bytes.TrimSpace(fixture(t, "p256.sig"))
	key, err := ReadPublicKey(fixtures + "/p256.pub.pem")
	if err != nil {
		t.Fatal(err)
	}
	want := statement(t, "p256").Files()
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 1 << (i % 7)
		b, err := ParseBundle(changed)
		if err != nil {
			continue
		}
		s, err := b.VerifyKey(key)
		if err == nil && strings.Join(s.Files(), "|") != strings.Join(want, "|") {
			t.Fatalf("byte %d: another statement passes", i)
		}
		// Only names of members that are not needed may change: tlogEntries, keyid.
		if around := string(text[max(0, i-14):min(len(text), i+14)]); err == nil && !strings.Contains(around, "tlogEntries") && !strings.Contains(around, "keyid") {
			t.Errorf("byte %d, in %q: passes", i, around)
		}
	}
	for n := range len(text) {
		if _, err := ParseBundle(text[:n]); err == nil {
			t.Fatalf("cut after %d bytes: parses", n)
		}
	}
}

// TestBundleRefused has bundles with one fault each.
func TestBundleRefused(t *testing.T) {
	material := func(b map[string]any) map[string]any { return b["verificationMaterial"].(map[string]any) }
	envelope := func(b map[string]any) map[string]any { return b["dsseEnvelope"].(map[string]any) }
	for what, change := range map[string]func(b map[string]any){
		"media type":     func(b map[string]any) { b["mediaType"] = "application/vnd.dev.sigstore.bundle.v0.4+json" },
		"no media type":  func(b map[string]any) { delete(b, "mediaType") },
		"no envelope":    func(b map[string]any) { delete(b, "dsseEnvelope") },
		"no material":    func(b map[string]any) { delete(b, "verificationMaterial") },
		"another member": func(b map[string]any) { b["mediatype"] = 1 },
		"payload type":   func(b map[string]any) { envelope(b)["payloadType"] = "application/json" },
		"no signature":   func(b map[string]any) { envelope(b)["signatures"] = []any{} },
		"a second signature": func(b map[string]any) {
			s := envelope(b)["signatures"].([]any)
			envelope(b)["signatures"] = append(s, s[0])
		},
		"base64 for URLs":     func(b map[string]any) { envelope(b)["payload"] = "-_-_" },
		"base64 without pad":  func(b map[string]any) { envelope(b)["payload"] = "QQ" },
		"base64 with a rest":  func(b map[string]any) { envelope(b)["payload"] = "QR==" },
		"base64 with a break": func(b map[string]any) { envelope(b)["payload"] = "QUFB\nQUFB" },
		"two kinds of key":    func(b map[string]any) { material(b)["certificate"] = map[string]any{} },
		"no kind of key":      func(b map[string]any) { delete(material(b), "publicKey") },
		"a key and its hint":  func(b map[string]any) { material(b)["publicKey"].(map[string]any)["rawBytes"] = "QQ==" },
		"an empty chain": func(b map[string]any) {
			delete(material(b), "publicKey")
			material(b)["x509CertificateChain"] = map[string]any{"certificates": []any{}}
		},
		"an endless chain": func(b map[string]any) {
			delete(material(b), "publicKey")
			block, _ := pem.Decode(fixture(t, "root.pem"))
			one := map[string]any{"rawBytes": block.Bytes}
			material(b)["x509CertificateChain"] = map[string]any{"certificates": slices.Repeat([]any{one}, maxChain+1)}
		},
		"a damaged certificate": func(b map[string]any) {
			delete(material(b), "publicKey")
			material(b)["x509CertificateChain"] = map[string]any{"certificates": []any{map[string]any{"rawBytes": "QQ=="}}}
		},
	} {
		if _, err := ParseBundle(mutate(t, fixture(t, "p256.sig"), change)); err == nil {
			t.Errorf("%s: parses", what)
		} else if !strings.HasPrefix(err.Error(), "bundle: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	doubled := bytes.Replace(fixture(t, "p256.sig"), []byte(`"mediaType"`), []byte(`"mediaType":"x","mediaType"`), 1)
	if _, err := ParseBundle(doubled); err == nil {
		t.Error("a key twice: parses")
	}
}

// TestStatementRefused has statements that are signed well, with one fault each.
func TestStatementRefused(t *testing.T) {
	predicate := func(s map[string]any) map[string]any { return s["predicate"].(map[string]any) }
	form := func(s map[string]any) map[string]any { return predicate(s)["serialization"].(map[string]any) }
	first := func(s map[string]any) map[string]any { return predicate(s)["resources"].([]any)[0].(map[string]any) }
	name := func(name string) func(map[string]any) { return func(s map[string]any) { first(s)["name"] = name } }
	note := func(v any) func(map[string]any) {
		return func(s map[string]any) { first(s)["annotations"] = map[string]any{ChunksAnnotation: v} }
	}
	sum := base64.StdEncoding.EncodeToString(make([]byte, sha256.Size))
	for what, change := range map[string]func(s map[string]any){
		"type":                  func(s map[string]any) { s["_type"] = "https://in-toto.io/Statement/v0.1" },
		"predicate type":        func(s map[string]any) { s["predicateType"] = "https://slsa.dev/provenance/v1" },
		"no predicate":          func(s map[string]any) { delete(s, "predicate") },
		"no subject":            func(s map[string]any) { delete(s, "subject") },
		"two subjects":          func(s map[string]any) { l := s["subject"].([]any); s["subject"] = append(l, l[0]) },
		"stale root digest":     func(s map[string]any) { first(s)["digest"] = strings.Repeat("ab", 32) },
		"swapped resources":     func(s map[string]any) { l := predicate(s)["resources"].([]any); l[0], l[1] = l[1], l[0] },
		"no resources":          func(s map[string]any) { predicate(s)["resources"] = []any{} },
		"a name twice":          name("a.b"),
		"an empty name":         name(""),
		"an absolute name":      name("/etc/passwd"),
		"a name that leads out": name("../x"),
		"a detour":              name("a/../b"),
		"an empty part":         name("a//b"),
		"a dot":                 name("./a"),
		"a dot among others":    name("."),
		"a NUL":                 name("a\x00"),
		"digest in capitals":    func(s map[string]any) { first(s)["digest"] = strings.ToUpper(first(s)["digest"].(string)) },
		"short digest":          func(s map[string]any) { first(s)["digest"] = "abcd" },
		"another algorithm":     func(s map[string]any) { first(s)["algorithm"] = "sha512" },
		"unknown hash":          func(s map[string]any) { form(s)["hash_type"] = "md5" },
		"unknown method":        func(s map[string]any) { form(s)["method"] = "lines" },
		"shards without a size": func(s map[string]any) { form(s)["method"] = "shards" },
		"half a shard":          func(s map[string]any) { form(s)["method"], form(s)["shard_size"] = "shards", 0.5 },
		"chunks: no object":     note("x"),
		"chunks: no size":       note(map[string]any{"digests": sum}),
		"chunks: no digests":    note(map[string]any{"size": 1 << 22}),
		"chunks: odd size":      note(map[string]any{"size": 1<<22 + 1, "digests": sum}),
		"chunks: small size":    note(map[string]any{"size": 1 << 15, "digests": sum}),
		"chunks: large size":    note(map[string]any{"size": float64(1 << 31), "digests": sum}),
		"chunks: half a sum":    note(map[string]any{"size": 1 << 22, "digests": "QUFB"}),
		"chunks: bad base64":    note(map[string]any{"size": 1 << 22, "digests": "QUF"}),
		"chunks: too many":      note(map[string]any{"size": 1 << 22, "digests": base64.StdEncoding.EncodeToString(make([]byte, sha256.Size*(layout.MaxChunks+1)))}),
	} {
		s := sign(t, nil, change)
		b, err := ParseBundle(s.bundle)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.VerifyKey(s.key.Public()); err == nil {
			t.Errorf("%s: passes", what)
		}
	}
	for what, change := range map[string]func(s map[string]any){
		"unchanged":       func(map[string]any) {},
		"another version": func(s map[string]any) { first(s)["annotations"] = map[string]any{"dev.tensormap.chunks/v2": 1} },
		"unknown members": func(s map[string]any) { s["x"], predicate(s)["y"], first(s)["z"] = 1, 2, []any{3} },
	} {
		s := sign(t, nil, change)
		b, err := ParseBundle(s.bundle)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := b.VerifyKey(s.key.Public()); err != nil {
			t.Errorf("%s: %v", what, err)
		} else if err := st.Verify(t.Context(), fixtures+"/model", nil); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestStatementShards has lists of shards with one fault each.
func TestStatementShards(t *testing.T) {
	d := strings.Repeat("00", 32)
	good := [][2]string{{"f:0:65536", d}, {"f:65536:70000", d}, {"x:y:0:5", d}}
	for what, c := range map[string]struct {
		list [][2]string
		ok   bool
	}{
		"good":             {good, true},
		"other order":      {[][2]string{good[1], good[0]}, true},
		"a gap":            {[][2]string{good[1]}, false},
		"twice":            {[][2]string{good[0], good[0]}, false},
		"after the last":   {[][2]string{good[0], good[1], {"f:131072:131073", d}}, false},
		"too long":         {[][2]string{{"f:0:65537", d}}, false},
		"empty":            {[][2]string{{"f:0:0", d}}, false},
		"no end":           {[][2]string{{"f:0", d}}, false},
		"negative":         {[][2]string{{"f:-1:5", d}}, false},
		"past all numbers": {[][2]string{{"f:18446744073709486080:18446744073709551616", d}}, false},
	} {
		all := sha256.New()
		var list []any
		for _, r := range c.list {
			all.Write(make([]byte, 32))
			list = append(list, map[string]any{"name": r[0], "digest": r[1], "algorithm": "sha256"})
		}
		payload := mutate(t, sign(t, nil, nil).payload, func(s map[string]any) {
			s["predicate"] = map[string]any{"resources": list, "serialization": map[string]any{"method": "shards", "hash_type": "sha256", "shard_size": 65536.0}}
			s["subject"] = []any{map[string]any{"name": "m", "digest": map[string]any{"sha256": sumHex(all.Sum(nil))}}}
		})
		if _, err := ParseStatement(payload); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func sumHex(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

// TestSign signs directories of several shapes, and verifies what it wrote.
func TestSign(t *testing.T) {
	for _, typ := range []string{P256, P384, P521} {
		dir := filepath.Join(t.TempDir(), "m")
		if err := os.CopyFS(dir, os.DirFS(fixtures+"/model")); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir+"/.git/objects", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/.git/objects/x", nil, 0o666); err != nil {
			t.Fatal(err)
		}
		key, err := GenerateKey(typ)
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range []string{filepath.Join(dir, "model.sig"), filepath.Join(dir, "sub", "model.sig"), filepath.Join(t.TempDir(), "out.sig")} {
			if err := Sign(t.Context(), dir, out, key, nil); err != nil {
				t.Fatal(err)
			}
			s := Verified(t, out, key)
			if err := s.Verify(t.Context(), dir, nil); err != nil {
				t.Error(err)
			}
			if d, err := s.Digests("model.safetensors", layout.Bytes(fixture(t, "model/model.safetensors"))); err != nil || d.Granularity != layout.ByChunk || d.Count() != 1 {
				t.Errorf("%+v %v", d, err)
			}
			if err := os.Remove(out); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSignChunks signs in chunks of several sizes. A size that no signature may have is refused before
// anything is read.
func TestSignChunks(t *testing.T) {
	key, err := GenerateKey(P256)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "s")
	for chunk, ok := range map[uint64]bool{0: true, layout.MinChunk: true, layout.MaxChunk: true, layout.MinChunk / 2: false, 100000: false, layout.MaxChunk * 2: false} {
		err := Sign(t.Context(), fixtures+"/model", out, key, &SignOptions{ChunkBytes: chunk})
		if (err == nil) != ok || !ok && !errors.Is(err, layout.ErrLimit) {
			t.Errorf("%d: %v", chunk, err)
		}
		if err != nil {
			continue
		}
		s := Verified(t, out, key)
		model := fixture(t, "model/model.safetensors")
		d, err := s.Digests("model.safetensors", layout.Bytes(model))
		if err != nil || chunk > 0 && d.Chunk != chunk || d.Count() != (uint64(len(model))-1)/d.Chunk+1 {
			t.Errorf("%d: %+v, %v", chunk, d, err)
		}
		if err := s.Verify(t.Context(), fixtures+"/model", nil); err != nil {
			t.Errorf("%d: %v", chunk, err)
		}
	}
	// 64 KiB are too small for a file that would have 32,769 of them.
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, layout.MaxChunks*layout.MinChunk+1); err != nil {
		t.Skip(err)
	}
	if err := Sign(t.Context(), large, out, key, &SignOptions{ChunkBytes: layout.MinChunk}); !errors.Is(err, layout.ErrLimit) {
		t.Error(err)
	}
}

func TestSignRefuses(t *testing.T) {
	key, err := GenerateKey(P256)
	if err != nil {
		t.Fatal(err)
	}
	ed, err := GenerateKey(Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := filepath.Join(t.TempDir(), "s")
	if err := Sign(t.Context(), dir, out, key, nil); err == nil {
		t.Error("an empty directory is signed")
	}
	if err := os.WriteFile(dir+"/f", []byte("f"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Sign(t.Context(), dir, out, ed, nil); !errors.Is(err, ErrKey) {
		t.Error("Ed25519:", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Sign(ended, dir, out, key, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if runtime.GOOS != "windows" && runtime.GOARCH != "wasm" {
		if err := os.Symlink("f", dir+"/link"); err != nil {
			t.Fatal(err)
		}
		if err := Sign(t.Context(), dir, out, key, nil); err == nil || !strings.Contains(err.Error(), "link") {
			t.Error("a link:", err)
		}
		if err := os.Symlink(out, dir+"/outside"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(out, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		var warned []error
		if err := Sign(t.Context(), dir, out, key, &SignOptions{AllowSymlinks: true, Warn: func(err error) { warned = append(warned, err) }}); err != nil {
			t.Error(err)
		}
		if len(warned) != 1 || !strings.Contains(warned[0].Error(), "outside: the link leads out of the directory") {
			t.Error(warned)
		}
		return
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a bundle stays:", err)
	}
}

// TestSignPlantedLink has links where Sign and WriteKey write by default. Nothing is written where they lead.
func TestSignPlantedLink(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOARCH == "wasm" {
		t.Skip("no links")
	}
	key, err := GenerateKey(P256)
	if err != nil {
		t.Fatal(err)
	}
	dir, outside := t.TempDir(), t.TempDir()
	victim, missing := outside+"/authorized_keys", outside+"/missing"
	if err := errors.Join(os.WriteFile(dir+"/f", []byte("f"), 0o666), os.WriteFile(victim, []byte("keys"), 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{victim, missing} {
		for _, c := range []struct {
			write func() error
			link  string
		}{
			{func() error { return Sign(t.Context(), dir, dir+"/model.sig", key, nil) }, dir + "/model.sig"},
			{func() error { return Sign(t.Context(), dir+"/f", dir+"/f.sig", key, nil) }, dir + "/f.sig"},
			{func() error {
				return Sign(t.Context(), dir, dir+"/model.sig", key, &SignOptions{Ignore: []string{".atomicfile.lock"}})
			}, dir + "/.atomicfile.lock"},
			{func() error { return WriteKey(dir+"/k.pem", key) }, dir + "/k.pem"},
			{func() error { return WriteKey(dir+"/k.pem", key) }, dir + "/k.pub.pem"},
		} {
			if err := os.Symlink(target, c.link); err != nil {
				t.Fatal(err)
			}
			if err := c.write(); err == nil {
				t.Errorf("%s to %s: written", c.link, target)
			}
			if b, err := os.ReadFile(victim); string(b) != "keys" {
				t.Fatalf("%s has changed its target: %q, %v", c.link, b, err)
			}
			if _, err := os.Lstat(missing); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s has made its target: %v", c.link, err)
			}
			if err := os.Remove(c.link); err != nil {
				t.Fatal(err)
			}
		}
		if left, err := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
	// A link elsewhere was named on purpose, as /dev/stdout is.
	if err := os.Symlink(missing, outside+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := Sign(t.Context(), dir, outside+"/link", key, nil); err != nil {
		t.Error(err)
	}
	Verified(t, missing, key)
}

// TestSignKeepsFiles: a bundle takes the place of another, or of an empty file. It took that of the model too.
func TestSignKeepsFiles(t *testing.T) {
	key, err := GenerateKey(P256)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"model": "f", "config.json": `{"mediaType":"x"}`, "list.json": "[]", "large": strings.Repeat(" ", 1<<16) + "{}"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, root := range []string{dir, path} {
			err := Sign(t.Context(), root, path, key, nil)
			if b, _ := os.ReadFile(path); string(b) != text || err == nil || strings.Count(err.Error(), path) != 1 {
				t.Errorf("%s is %.20q: %v", name, b, err)
			}
		}
	}
	out := filepath.Join(dir, "model.sig")
	if err := os.WriteFile(out, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Sign(t.Context(), dir, out, key, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestIgnoredPaths leaves out git's files at the top, which bundles before release 1.1 of the reference client do
// not mention, and what the caller names. What is signed is compared all the same.
func TestIgnoredPaths(t *testing.T) {
	s := statement(t, "old")
	if len(s.IgnorePaths) != 0 {
		t.Fatal(s.IgnorePaths)
	}
	dir := filepath.Join(t.TempDir(), "other")
	if err := os.CopyFS(dir, os.DirFS(fixtures+"/model")); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".git/objects/x", ".gitignore", ".gitattributes", ".github/workflows/x.yml"} {
		put(name, "git")
	}
	if err := s.Verify(t.Context(), dir, nil); err != nil {
		t.Error(err)
	}
	put("sub/.gitignore", "not at the top")
	put("more/deep/x", "more")
	for _, c := range []struct {
		ignore []string
		wrong  []string // the names of files
	}{
		{nil, []string{"more/deep/x", "sub/.gitignore"}},
		{[]string{"more"}, []string{"sub/.gitignore"}},
		{[]string{"mor", "deep", "x", "sub/.git"}, []string{"more/deep/x", "sub/.gitignore"}},
		{[]string{"more/deep", "sub"}, nil}, // though a file below sub is signed
	} {
		err := s.Verify(t.Context(), dir, &VerifyOptions{Ignore: c.ignore})
		var says []string
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, err := range joined.Unwrap() {
				if name, ok := strings.CutSuffix(err.Error(), ": not signed: the signature does not list it"); ok {
					says = append(says, strings.TrimPrefix(filepath.ToSlash(name), filepath.ToSlash(dir)+"/"))
				}
			}
		}
		if !slices.Equal(says, c.wrong) || (err == nil) != (c.wrong == nil) {
			t.Errorf("without %q: %v", c.ignore, err)
		}
	}
	put("a.b", "changed")
	if err := s.Verify(t.Context(), dir, &VerifyOptions{Ignore: []string{"a.b", "more", "sub"}}); !errors.Is(err, layout.ErrChecksum) {
		t.Error("a signed file that is to be ignored:", err)
	}
	names, err := Within(dir, filepath.Join(dir, "more"), filepath.Join(dir, "a", "..", "sub", "not there"))
	if err != nil || !slices.Equal(names, []string{"more", "sub/not there"}) {
		t.Error(names, err)
	}
	for _, path := range []string{"more", dir, filepath.Join(dir, "..", "x")} {
		if names, err := Within(dir, path); !errors.Is(err, layout.ErrInvalid) {
			t.Errorf("%s: %q, %v", path, names, err)
		}
	}
	key, err := GenerateKey(P256)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "s")
	for _, path := range []string{"*.b", "a?b", "[a]", "/a", "../a", "a/../../b", ""} {
		if err := Sign(t.Context(), dir, out, key, &SignOptions{Ignore: []string{path}}); !errors.Is(err, layout.ErrInvalid) {
			t.Errorf("signed without %q: %v", path, err)
		}
	}
	if err := Sign(t.Context(), dir, out, key, &SignOptions{Ignore: []string{"./more//deep/"}}); err != nil {
		t.Fatal(err)
	}
	if s := Verified(t, out, key); !slices.Contains(s.IgnorePaths, "more/deep") || slices.Contains(s.Files(), "more/deep/x") {
		t.Error(s.IgnorePaths, s.Files())
	}
}

// TestVerifySnapshot verifies a snapshot of the Hugging Face cache, which is links.
func TestVerifySnapshot(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOARCH == "wasm" {
		t.Skip("no links")
	}
	root, outside := t.TempDir(), t.TempDir()
	snapshot := root + "/models--x/snapshots/abc"
	for _, dir := range []string{snapshot, root + "/models--x/blobs", root + "/plain", root + "/blobs/ab", root + "/models--y"} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(name, []byte("weights"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(root + "/models--x/blobs/0123")
	write(root + "/models--x/elsewhere")
	write(root + "/plain/model.bin")
	key, err := GenerateKey(P256)
	if err != nil {
		t.Fatal(err)
	}
	if err := Sign(t.Context(), root+"/plain", root+"/s", key, nil); err != nil {
		t.Fatal(err)
	}
	s := Verified(t, root+"/s", key)
	// huggingface_hub 1.32 and later share blobs of Xet: the repository's blob is a link (utils/_shared_blobs.py).
	write(root + "/blobs/ab/abcd")
	write(outside + "/abcd")
	link := func(target, name string) {
		t.Helper()
		os.Remove(name)
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	link("../../blobs/ab/abcd", root+"/models--x/blobs/shared")
	link(outside+"/abcd", root+"/models--x/blobs/outside")
	link(outside+"/abcd", root+"/blobs/ab/outside")
	link("../../blobs/ab/outside", root+"/models--x/blobs/twice")
	link("../../models--y/file", root+"/models--x/blobs/other")
	write(root + "/models--y/file")
	for target, ok := range map[string]bool{
		"../../blobs/0123": true, "../../blobs/shared": true, "../../../blobs/ab/abcd": true,
		"../../elsewhere": false, "../../blobs/outside": false, "../../blobs/twice": false, "../../blobs/other": false, outside + "/abcd": false,
	} {
		link(target, snapshot+"/model.bin")
		if err := s.Verify(t.Context(), snapshot, nil); (err == nil) != ok || !ok && !errors.Is(err, layout.ErrUnsupported) {
			t.Errorf("%s: %v", target, err)
		}
	}
	link("../../blobs/shared", snapshot+"/model.bin")
	if err := os.WriteFile(root+"/blobs/ab/abcd", []byte("changed"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context(), snapshot, nil); !errors.Is(err, layout.ErrChecksum) {
		t.Error("a shared blob was changed:", err)
	}
	// The folder of all blobs leads out of the cache.
	if err := errors.Join(os.Rename(root+"/blobs", outside+"/blobs"), os.Symlink(outside+"/blobs", root+"/blobs")); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context(), snapshot, nil); !errors.Is(err, layout.ErrUnsupported) {
		t.Error("the cache's blobs are elsewhere:", err)
	}
}

// TestKeys writes keys and reads them back, and refuses what is not one.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	for _, typ := range KeyTypes() {
		path := filepath.Join(dir, typ+".pem")
		key, err := GenerateKey(typ)
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteKey(path, key); err != nil {
			t.Fatal(err)
		}
		if err := WriteKey(path, key); !errors.Is(err, fs.ErrExist) {
			t.Error("replaced:", err)
		}
		back, err := ReadPrivateKey(path)
		if err != nil {
			t.Fatal(err)
		}
		public, err := ReadPublicKey(PublicName(path))
		if err != nil {
			t.Fatal(err)
		}
		if !back.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(public) {
			t.Errorf("%s: another key", typ)
		}
		if _, err := ReadPublicKey(path); !errors.Is(err, ErrKey) {
			t.Error("a private key as a public one:", err)
		}
		if runtime.GOOS != "windows" && runtime.GOARCH != "wasm" {
			if err := os.Chmod(path, 0o604); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadPrivateKey(path); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "chmod") {
				t.Error("others may read it:", err)
			}
			if _, err := ReadPrivateKey(PublicName(path)); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "a public key where") {
				t.Error("a public key, which others may read:", err)
			}
		}
	}
	if _, err := GenerateKey("rsa"); !errors.Is(err, ErrKey) {
		t.Error(err)
	}
	for _, text := range []string{"", "secret", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"} {
		if _, err := ParsePrivateKey([]byte(text)); !errors.Is(err, ErrKey) || strings.Contains(err.Error(), "c2VjcmV0") || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
		if _, err := ParsePublicKey([]byte(text)); !errors.Is(err, ErrKey) {
			t.Error(err)
		}
	}
}

// TestSecretModes has the modes that PostgreSQL takes for a private key (check_ssl_key_file_permissions), and
// 0440, which Kubernetes makes of defaultMode 0400 or 0440 with an fsGroup.
func TestSecretModes(t *testing.T) {
	for _, c := range []struct {
		mode       fs.FileMode
		root, some bool // whether it is good if root owns the file, and if somebody else does
	}{
		{0o600, true, true}, {0o400, true, true}, {0o640, true, false}, {0o440, true, false}, {0o660, false, false}, {0o650, false, false},
		{0o644, false, false}, {0o444, false, false}, {0o604, false, false}, {0o602, false, false}, {0o601, false, false},
	} {
		for _, root := range []bool{true, false} {
			good := c.some
			if root {
				good = c.root
			}
			if err := checkMode(c.mode, root); (err == nil) != good || err != nil && !errors.Is(err, ErrKey) {
				t.Errorf("mode %#o, of root: %t: %v", c.mode, root, err)
			}
		}
	}
	if runtime.GOOS == "windows" || runtime.GOARCH == "wasm" {
		return
	}
	path := filepath.Join(t.TempDir(), "k.key")
	if err := errors.Join(os.WriteFile(path, make([]byte, 32), 0o600), os.Chmod(path, 0o440)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(path); (err == nil) != (os.Getuid() == 0) {
		t.Errorf("mode 0440 for the user %d: %v", os.Getuid(), err)
	}
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]func() error{
		"ReadKey":        func() error { _, err := ReadKey(path); return err },
		"ReadPassphrase": func() error { _, err := ReadPassphrase(path); return err },
	} {
		if err := read(); !errors.Is(err, ErrKey) || !errors.Is(err, loader.ErrKey) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s of a file that everybody reads: %v", what, err)
		}
	}
}

// TestReprOfPython compares with what Python prints.
func TestReprOfPython(t *testing.T) {
	for payload, want := range map[string]string{
		"plain":        `b'plain'`,
		"it's":         `b"it's"`,
		`it's "q"`:     `b'it\'s "q"'`,
		"\t\n\r\\\x7f": `b'\t\n\r\\\x7f'`,
		"ü\x00":        `b'\xc3\xbc\x00'`,
	} {
		var message bytes.Buffer
		w := bufio.NewWriter(&message)
		paeOfRepr(w, []byte(payload))
		w.Flush()
		if got := message.String(); !strings.HasSuffix(got, " "+want) || !strings.HasPrefix(got, "DSSEV1 28 application/vnd.in-toto+json ") {
			t.Errorf("%q: %s", payload, got)
		}
	}
}

func FuzzBundle(f *testing.F) {
	for _, name := range []string{"p256", "certificate", "shards", "old", "blake3", "historical/v0.2.0-certificate/model", "historical/v1.1.0-sigstore/model"} {
		f.Add(fixture(f, name+".sig"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if b, err := ParseBundle(text); err == nil {
			if s, err := ParseStatement(b.payload); err == nil {
				for _, name := range s.Files() {
					s.Digests(name, layout.Bytes(text))
				}
			}
		}
	})
}

func FuzzAnnotations(f *testing.F) {
	f.Add(`{"size": 4194304, "digests": "QUFB"}`, "a:0:5", "1e3")
	f.Fuzz(func(t *testing.T, note, name, size string) {
		payload := []byte(`{"_type": "` + statementType + `", "predicateType": "` + predicateType + `", "subject": [{"name": "m", "digest": {"sha256": ""}}],
			"predicate": {"resources": [{"name": "` + name + `", "digest": "", "annotations": {"` + ChunksAnnotation + `": ` + note + `}}],
			"serialization": {"method": "shards", "hash_type": "sha256", "shard_size": ` + size + `}}}`)
		if s, err := ParseStatement(payload); err == nil {
			t.Fatalf("a statement without digests passes: %+v", s)
		}
		js := jsontext.New([]byte(size), layout.Unknown, 0, "JSON", bundleLimits.WithDefaults())
		if n := readUint(&js); n > 1<<53 && strings.ContainsAny(size, ".eE") {
			t.Fatal(n)
		}
	})
}

// TestListFilesOddNames: a directory whose name is not UTF-8, and the files in it, are listed like others.
func TestListFilesOddNames(t *testing.T) {
	root := t.TempDir()
	odd := filepath.Join(root, "odd\xff")
	if err := os.Mkdir(odd, 0o700); err != nil || runtime.GOOS == "windows" {
		t.Skip(err, "there are no such names here")
	}
	if names, err := listFiles(root, func(string) bool { return false }, noLinks); err != nil || len(names) > 0 {
		t.Errorf("%q, %v", names, err)
	}
	if err := os.WriteFile(filepath.Join(odd, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	names, err := listFiles(root, func(string) bool { return false }, noLinks)
	if err != nil || len(names) != 1 || names[0] != "odd\xff/f" {
		t.Errorf("%q, %v", names, err)
	}
}
