package keyless

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/trust"
)

const fixtures = "../../testdata/trust"

// signer is whose bundles the fixtures are.
var signer = Signer{Identity: "stefanb@us.ibm.com", Issuer: "https://sigstore.verify.ibm.com/oauth2"}

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(fixtures, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func trustedRoot(t testing.TB) []byte { return fixture(t, "sigstore/trusted_root.json") }

// TestBundlesOfPython verifies models that releases of the reference client signed, with the public Sigstore
// instance's root.
func TestBundlesOfPython(t *testing.T) {
	dirs, err := filepath.Glob(fixtures + "/historical/*-sigstore")
	if err != nil || len(dirs) != 4 {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		s, err := Verify(fixture(t, "historical/"+filepath.Base(dir)+"/model.sig"), trustedRoot(t), signer)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		opts := &trust.VerifyOptions{Bundle: dir + "/model.sig", Ignore: []string{"ignore-me"}}
		if err := s.Verify(t.Context(), dir, opts); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		other := filepath.Join(t.TempDir(), "model")
		if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(other+"/signme-1", []byte("changed!"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(t.Context(), other, opts); !errors.Is(err, layout.ErrChecksum) {
			t.Errorf("%s, changed: %v", dir, err)
		}
	}
	if _, err := Verify(fixture(t, "spec/valid/sigstore.bundle.json"), trustedRoot(t), signer); err != nil {
		t.Error("the specification's vector:", err)
	}
}

// TestRefused has other signers, other roots, and bundles with a part missing, changed or from another one.
func TestRefused(t *testing.T) {
	good := fixture(t, "historical/v1.1.0-sigstore/model.sig")
	other := parsed(t, fixture(t, "historical/v1.0.0-sigstore/model.sig"))
	change := func(f func(material, envelope map[string]any)) []byte {
		b := parsed(t, good)
		f(b["verificationMaterial"].(map[string]any), b["dsseEnvelope"].(map[string]any))
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if _, err := Verify(change(func(_, _ map[string]any) {}), trustedRoot(t), signer); err != nil {
		t.Fatal("written anew:", err)
	}
	entry := func(material map[string]any) map[string]any {
		return material["tlogEntries"].([]any)[0].(map[string]any)
	}
	for what, c := range map[string]struct {
		text, root []byte
		signer     Signer
		want       error
	}{
		"another identity": {good, nil, Signer{"somebody@us.ibm.com", signer.Issuer}, trust.ErrSignature},
		"part of it":       {good, nil, Signer{"us.ibm.com", signer.Issuer}, trust.ErrSignature},
		"another issuer":   {good, nil, Signer{signer.Identity, "https://accounts.google.com"}, trust.ErrSignature},
		"no identity":      {good, nil, Signer{"", signer.Issuer}, trust.ErrKey},
		"no issuer":        {good, nil, Signer{signer.Identity, ""}, trust.ErrKey},
		"empty root":       {good, []byte(`{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`), signer, trust.ErrSignature},
		"no root":          {good, []byte(`{}`), signer, trust.ErrKey},
		"root without log": {good, without(t, trustedRoot(t), "tlogs"), signer, trust.ErrSignature},
		"root without CA":  {good, without(t, trustedRoot(t), "certificateAuthorities"), signer, trust.ErrSignature},
		"root without CT":  {good, without(t, trustedRoot(t), "ctlogs"), signer, trust.ErrSignature},
		"by key":           {fixture(t, "p256.sig"), nil, signer, trust.ErrSignature},
		"no log entry":     {change(func(m, _ map[string]any) { m["tlogEntries"] = []any{} }), nil, signer, layout.ErrInvalid},
		"no proof":         {change(func(m, _ map[string]any) { delete(entry(m), "inclusionProof") }), nil, signer, layout.ErrInvalid},
		"later":            {change(func(m, _ map[string]any) { entry(m)["integratedTime"] = "1860000000" }), nil, signer, trust.ErrSignature},
		"another's log entry": {change(func(m, _ map[string]any) {
			m["tlogEntries"] = other["verificationMaterial"].(map[string]any)["tlogEntries"]
		}), nil, signer, trust.ErrSignature},
		"another's certificate": {change(func(m, _ map[string]any) {
			m["certificate"] = other["verificationMaterial"].(map[string]any)["certificate"]
		}), nil, signer, trust.ErrSignature},
		"another's payload": {change(func(_, e map[string]any) {
			e["payload"] = other["dsseEnvelope"].(map[string]any)["payload"]
		}), nil, signer, trust.ErrSignature},
		"another's signature": {change(func(_, e map[string]any) {
			e["signatures"] = other["dsseEnvelope"].(map[string]any)["signatures"]
		}), nil, signer, trust.ErrSignature},
		"two signatures": {change(func(_, e map[string]any) {
			e["signatures"] = append(e["signatures"].([]any), e["signatures"].([]any)[0])
		}), nil, signer, layout.ErrInvalid},
		"no entries at all": {fixture(t, "spec/invalid/missing-tlog-entries.bundle.json"), nil, signer, layout.ErrInvalid},
	} {
		if c.root == nil {
			c.root = trustedRoot(t)
		}
		if _, err := Verify(c.text, c.root, c.signer); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestOnePayload has a payload twice, so that two readers might see different ones.
func TestOnePayload(t *testing.T) {
	good := string(fixture(t, "historical/v1.1.0-sigstore/model.sig"))
	twice := strings.Replace(good, `"payload":`, `"payload": "e30=", "payload":`, 1)
	if twice == good {
		t.Fatal("the fixture looks different")
	}
	if _, err := Verify([]byte(twice), trustedRoot(t), signer); !errors.Is(err, layout.ErrDuplicate) {
		t.Error(err)
	}
}

func parsed(t testing.TB, text []byte) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// without returns a document without one of its members.
func without(t testing.TB, text []byte, key string) []byte {
	t.Helper()
	m := parsed(t, text)
	delete(m, key)
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
