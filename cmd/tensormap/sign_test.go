package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/hubtest"
)

// TestSignAndVerify makes keys, signs a model and verifies it, changed too.
func TestSignAndVerify(t *testing.T) {
	dir := t.TempDir()
	model, key, public := filepath.Join(dir, "m"), filepath.Join(dir, "k.pem"), filepath.Join(dir, "k.pub.pem")
	if err := os.CopyFS(model, os.DirFS("../../testdata/trust/model")); err != nil {
		t.Fatal(err)
	}
	if out := done(t, "keygen", "-o", key); out != public+"\n" {
		t.Errorf("%q", out)
	}
	done(t, "sign", model, "--key", key)
	bundle := filepath.Join(model, "model.sig")
	for _, path := range []string{model, filepath.Join(model, "model.safetensors")} {
		if out := done(t, "verify", path, "--signature", bundle, "--key", public); !strings.Contains(out, "ok: signature, header") {
			t.Errorf("%q", out)
		}
	}
	refused := func(status int, says string, args ...string) {
		t.Helper()
		if r := tensormap(args...); r.status != status || !strings.Contains(r.stderr, says) {
			t.Errorf("%q: status %d, %s", args, r.status, r.stderr)
		}
	}
	refused(exitUsage, "--key", "verify", model, "--signature", bundle)
	refused(exitUsage, "--signature", "verify", model, "--certificate-chain", public)
	refused(exitFailed, "private key", "verify", model, "--signature", bundle, "--key", key)
	refused(exitFailed, "exists", "keygen", "-o", key)
	refused(exitUsage, "--key", "sign", model)
	refused(exitUsage, "-o", "keygen")
	if runtime.GOOS != "windows" {
		if err := os.Chmod(key, 0o644); err != nil {
			t.Fatal(err)
		}
		refused(exitFailed, "chmod 600", "sign", model, "--key", key)
	}
	// Every verb that reads takes the flags, and refuses a changed file.
	weights := filepath.Join(model, "model.safetensors")
	reading := [][]string{{"inspect", weights}, {"dump", weights, "t1"}, {"stats", weights}, {"hash", weights}, {"diff", weights, weights},
		{"convert", weights, filepath.Join(dir, "out.apr")}, {"split", weights, filepath.Join(dir, "s.apr"), "--shard-size", "100KB"}, {"map", weights}}
	for _, args := range reading {
		done(t, append(args, "--signature", bundle, "--key", public)...)
	}
	good, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(good)
	bad[len(bad)-1] ^= 1
	if err := os.WriteFile(weights, bad, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range reading {
		refused(exitFailed, "chunk 0", append(args, "--signature", bundle, "--key", public)...)
	}
	if err := os.WriteFile(weights, good, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(model, "a.b"), []byte("other"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(model, "more"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.b", "more"} {
		refused(exitFailed, filepath.Join(model, name)+": ", "verify", model, "--signature", bundle, "--key", public)
	}
	r := tensormap("verify", "--json", model, "--signature", bundle, "--key", public)
	if !strings.Contains(r.stdout, `"ok":false`) || !strings.Contains(r.stdout, `"signature"`) {
		t.Errorf("%s", r.stdout)
	}
}

// TestSignNoModel signs files that are no model, as the reference client does, and verifies them by key and by
// certificate.
func TestSignNoModel(t *testing.T) {
	dir := t.TempDir()
	data, key, public := filepath.Join(dir, "data"), filepath.Join(dir, "k.pem"), filepath.Join(dir, "k.pub.pem")
	if err := os.CopyFS(data, os.DirFS("../../testdata/trust/model/a")); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	says := func(status int, says string, args ...string) {
		t.Helper()
		if r := tensormap(args...); r.status != status || !strings.Contains(r.stdout+r.stderr, says) {
			t.Errorf("%q: status %d, %s%s", args, r.status, r.stdout, r.stderr)
		}
	}
	write("scratch", "x")
	done(t, "keygen", "-o", key)
	done(t, "sign", data, "--key", key, "--ignore-paths", filepath.Join(data, "scratch"))
	signed := []string{"--signature", filepath.Join(data, "model.sig"), "--key", public}
	verify := func(args ...string) []string { return append(append([]string{"verify"}, args...), signed...) }
	says(exitDone, data+": ok: signature (60 B in", verify(data)...) // read whole, and by chunks
	says(exitDone, `"ok":true,"checked":["signature"],"findings":[],"bytes":60`, verify("--json", data)...)
	says(exitDone, "b: ok: signature (", verify(filepath.Join(data, "b"))...)
	says(exitFailed, "no model in it", verify("--values", data)...)
	says(exitFailed, "no model in it", "verify", data)
	write("more", "more")
	says(exitFailed, "more: not signed", verify(data)...)
	says(exitDone, "ok: signature", verify(data, "--ignore-paths", filepath.Join(data, "more"))...)
	says(exitDone, "ok: signature", verify(data, "--ignore-unsigned-files")...)
	says(exitUsage, "does not lie below", verify(data, "--ignore-paths", "more")...)
	says(exitUsage, "--ignore-paths needs --signature", "verify", data, "--ignore-paths", filepath.Join(data, "more"))
	write("b", "changed")
	says(exitFailed, "b: checksum", verify(data, "--ignore-unsigned-files", "--ignore-paths", filepath.Join(data, "b"))...)
	write("w.gguf", "a name of a model, and no model")
	done(t, "sign", data, "--key", key)
	says(exitFailed, "unknown format", verify(data)...)
	says(exitFailed, "unknown format", verify(filepath.Join(data, "w.gguf"))...)
	root := filepath.Join(dir, "models--org--model")
	if err := os.MkdirAll(filepath.Join(root, "snapshots", "main"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(data, "b"), filepath.Join(root, "snapshots", "main", "b")); err == nil { // else the system has none
		says(exitFailed, "one of the folders in "+filepath.Join(root, "snapshots")+" is what was signed", verify(root)...)
	}

	if runtime.GOOS != "windows" {
		if err := os.Symlink(public, filepath.Join(data, "key")); err != nil {
			t.Fatal(err)
		}
		says(exitFailed, `"key" is a symbolic link`, "sign", data, "--key", key)
		says(exitDone, "warning: "+filepath.Join(data, "key")+": the link leads out", "sign", data, "--key", key, "--allow-symlinks")
	}

	const folder, model = "../../testdata/trust/certificates/", "../../testdata/trust/model/a"
	by := func(bundle string, args ...string) []string {
		return append([]string{"verify", model, "--signature", folder + bundle, "--certificate-chain", folder + "roots.pem"}, args...)
	}
	says(exitDone, "ok: signature", by("code.sig")...)
	says(exitDone, "ok: signature", by("code.sig", "--certificate-identity", `CN=signer,O=Acme\, Inc.`)...)
	says(exitDone, "ok: signature", by("code.sig", "--certificate-identity", "models@acme.example")...)
	says(exitFailed, `it is not one of "signer"`, by("code.sig", "--certificate-identity", "signer")...)
	says(exitFailed, "its extended key usage is not codeSigning", by("server.sig")...)
	says(exitUsage, "--certificate-chain", verify(data, "--certificate-identity", "signer")...)
}

// TestDigest reads files by their digests, and refuses others.
func TestDigest(t *testing.T) {
	const path = "../../testdata/trust/model/model.safetensors"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	right := "sha256:" + hex.EncodeToString(sum[:])
	wrong := "sha256:" + strings.Repeat("00", 32)
	if out := done(t, "verify", path, "--digest", right); !strings.Contains(out, "ok: digest, header") {
		t.Errorf("%q", out)
	}
	done(t, "dump", path, "t1", "--digest", "model.safetensors="+right)
	for _, c := range []struct {
		status int
		says   string
		args   []string
	}{
		{exitFailed, "digest", []string{"--digest", wrong}},
		{exitFailed, "no digest was given", []string{"--digest", "other=" + right}},
		{exitUsage, "md5", []string{"--digest", "md5:00"}},
		{exitUsage, "two for", []string{"--digest", right, "--digest", right}},
		{exitUsage, "exclude", []string{"--digest", right, "--key", "k.pem"}},
	} {
		if r := tensormap(append([]string{"inspect", path}, c.args...)...); r.status != c.status || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%q: status %d, %s", c.args, r.status, r.stderr)
		}
	}
}

// TestSideFilesVerified has a configuration beside a signed model changed, removed, and not listed: no verb
// reads it, and pull hands out none of the files.
func TestSideFilesVerified(t *testing.T) {
	dir := t.TempDir()
	model, key, public := filepath.Join(dir, "m"), filepath.Join(dir, "k.pem"), filepath.Join(dir, "k.pub.pem")
	weights, bundle, config := filepath.Join(model, "model.safetensors"), filepath.Join(dir, "m.sig"), filepath.Join(model, "config.json")
	if err := os.CopyFS(model, os.DirFS("../../testdata/trust/model")); err != nil {
		t.Fatal(err)
	}
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"hidden_size": 64}`)
	done(t, "keygen", "-o", key)
	done(t, "sign", model, "--key", key, "-o", bundle)
	content, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	hub := hubtest.New(t, map[string][]byte{"model.safetensors": content, "config.json": []byte(`{"hidden_size": 64}`)})
	trusting := []string{"--signature", bundle, "--key", public}
	refused := func(says string, args ...string) {
		t.Helper()
		if r := tensormap(append(args, trusting...)...); r.status != exitFailed || r.stdout != "" || !strings.Contains(r.stderr, says) {
			t.Errorf("%q: status %d, %s%s", args, r.status, r.stdout, r.stderr)
		}
	}
	out := filepath.Join(dir, "out.apr")
	done(t, append([]string{"convert", weights, out}, trusting...)...)
	done(t, append([]string{"pull", "hf://org/model"}, trusting...)...)
	put(`{"hidden_size": 65}`)
	refused("config.json: chunk 0", "convert", weights, out)
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	refused("config.json: not found", "convert", weights, out)
	put(`{}`)
	done(t, "sign", weights, "--key", key, "-o", bundle)
	refused(`does not list "config.json"`, "convert", weights, out)
	done(t, append([]string{"convert", weights, out, "--no-side-files"}, trusting...)...)

	refused(`does not list "config.json"`, "pull", "hf://org/model", "-o", filepath.Join(dir, "pulled"))
	if _, err := os.Stat(filepath.Join(dir, "pulled")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("files were copied:", err)
	}
	hub.Lock()
	hub.Files["model.safetensors"] = append(bytes.Clone(content[:len(content)-1]), content[len(content)-1]^1)
	hub.Commit = strings.Repeat("0", 40)
	hub.Unlock()
	refused("model.safetensors: chunk 0", "pull", "hf://org/model/model.safetensors")
}
