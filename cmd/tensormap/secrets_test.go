package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// secretFiles writes a key and a passphrase, and returns their paths.
func secretFiles(t *testing.T) (key, phrase string) {
	t.Helper()
	dir := t.TempDir()
	key, phrase = filepath.Join(dir, "k.key"), filepath.Join(dir, "phrase")
	for path, text := range map[string]string{key: strings.Repeat("a5", 32) + "\n", phrase: "hunter2\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return key, phrase
}

// TestEncrypt encrypts and decrypts by the command's flags.
func TestEncrypt(t *testing.T) {
	key, phrase := secretFiles(t)
	in, dir := modeltest.Small(t), t.TempDir()
	hash := done(t, "hash", "--stored", in)
	for name, tc := range map[string]struct{ encrypt, open []string }{
		"key":    {[]string{"--encrypt", key}, []string{"--decrypt", key}},
		"phrase": {[]string{"--passphrase-file", phrase}, []string{"--passphrase-file", phrase}},
	} {
		out := filepath.Join(dir, name+".apr")
		done(t, append([]string{"convert", in, out}, tc.encrypt...)...)
		if got := done(t, append([]string{"hash", "--stored", out}, tc.open...)...); got != hash {
			t.Errorf("%s: %s, want %s", name, got, hash)
		}
		for _, verb := range []string{"verify", "stats", "map"} {
			done(t, append([]string{verb, out}, tc.open...)...)
		}
		done(t, append([]string{"diff", in, out}, tc.open...)...)
		reading := []string{"--decrypt", key}
		if name == "phrase" {
			reading = []string{"--decrypt-passphrase-file", phrase}
		}
		back := filepath.Join(dir, name+".safetensors")
		r := tensormap(append([]string{"convert", out, back}, reading...)...)
		if r.status != exitDone || !strings.HasSuffix(r.stderr, out+": encryption not carried over\n") || done(t, "hash", "--stored", back) != hash {
			t.Errorf("%+v", r)
		}
		tensormap("stats", out).failsWith(t, out, "no key was given (--decrypt KEYFILE, or --passphrase-file FILE)")
		text := done(t, "inspect", out)
		json := done(t, append([]string{"inspect", "--json", out}, tc.open...)...)
		if !strings.Contains(text, "encrypted with  AES-256-GCM, ") || !strings.Contains(text, ", not verified\n") || !strings.Contains(json, `"encoding":"encrypted"`) || !strings.Contains(json, `"verified":true`) {
			t.Errorf("%s\n%s", text, json)
		}
	}
	// A passphrase that cannot be read is no passphrase for the second file either.
	byPhrase, none := filepath.Join(dir, "phrase.apr"), filepath.Join(dir, "none")
	if r := tensormap("inspect", byPhrase, byPhrase, "--passphrase-file", none); r.status != exitFailed || strings.Count(r.stderr, none) != 2 {
		t.Errorf("%+v", r)
	}
	encrypted := filepath.Join(dir, "key.apr")
	t.Setenv("TENSORMAP_DECRYPT", strings.Repeat("a5", 32))
	if got := done(t, "hash", "--stored", encrypted); got != hash {
		t.Errorf("by the environment: %s", got)
	}
	tensormap("stats", in).failsWith(t, in, "not encrypted")
	t.Setenv("TENSORMAP_DECRYPT", strings.Repeat("5a", 32))
	tensormap("stats", encrypted).failsWith(t, encrypted, "another key")
	t.Setenv("TENSORMAP_DECRYPT", "hunter2")
	if r := tensormap("stats", encrypted); r.status != exitFailed || strings.Contains(r.stderr, "hunter2") {
		t.Errorf("%+v", r)
	}
}

// TestEncryptRefused: nothing is written, and no message has a secret.
func TestEncryptRefused(t *testing.T) {
	key, phrase := secretFiles(t)
	in, dir := modeltest.Small(t), t.TempDir()
	out := filepath.Join(dir, "out.apr")
	refused := func(status int, says string, args ...string) {
		t.Helper()
		r := tensormap(args...)
		if r.status != status || !strings.Contains(r.stderr, says) || strings.Contains(r.stderr, "hunter2") || strings.Contains(r.stderr, "a5a5") {
			t.Errorf("%v: %+v", args, r)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%v left %v, %v", args, entries, err)
		}
	}
	refused(exitUsage, "exclude each other", "convert", in, out, "--encrypt", key, "--passphrase-file", phrase)
	refused(exitUsage, "exclude each other", "stats", in, "--decrypt", key, "--passphrase-file", phrase)
	refused(exitUsage, "exclude each other", "convert", in, out, "--decrypt", key, "--decrypt-passphrase-file", phrase)
	refused(exitUsage, "only APR2 files", "convert", in, filepath.Join(dir, "out.safetensors"), "--encrypt", key)
	refused(exitFailed, phrase, "convert", in, out, "--encrypt", phrase)
	refused(exitFailed, "no such file", "convert", in, out, "--encrypt", filepath.Join(dir, "no"))
	refused(exitFailed, "not encrypted", "convert", in, out, "--decrypt", key)
	refused(exitFailed, "neither model is encrypted", "diff", in, in, "--decrypt", key)
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	refused(exitFailed, "chmod 600", "convert", in, out, "--encrypt", key)
}
