package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/mmapio"
)

// TestCommandsInDocuments finds the verb and the flags of every command line that a document shows, and every flag
// that the pages on the command name by itself.
func TestCommandsInDocuments(t *testing.T) {
	root := rootCommand(io.Discard, io.Discard)
	new(profiles).addFlags(root)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	lines, flags := 0, 0
	for name, page := range documents(t) {
		code := strings.Join(regexp.MustCompile("(?s)```.*?\n```|`[^`\n]+`").FindAllString(page, -1), "\n")
		for _, m := range regexp.MustCompile("(?m)(?:^|[`(=/]|[;&|] |do )tensormap ([a-z-][^\n`|;&>#]*)").FindAllStringSubmatch(code, -1) {
			lines++
			if problem := misspelled(root, strings.Fields(m[1])); problem != "" {
				t.Errorf("%s: tensormap %s: %s", name, m[1], problem)
			}
		}
		if strings.HasPrefix(name, "examples/") || name == "docs/deploying.md" || name == "docs/performance.md" || name == "CHANGELOG.md" {
			continue // which have flags of other programs, and of before
		}
		for _, m := range regexp.MustCompile("`(--[a-z][a-z0-9-]*)").FindAllStringSubmatch(page, -1) {
			flags++
			if !anyHas(root, m[1]) {
				t.Errorf("%s: no verb has %s", name, m[1])
			}
		}
	}
	if lines < 60 || flags < 15 {
		t.Errorf("only %d command lines and %d flags", lines, flags)
	}
}

// TestREADME runs the commands that README shows, one after the other.
func TestREADME(t *testing.T) {
	_, section, _ := strings.Cut(documents(t)["README.md"], "\n## The command\n")
	_, block, _ := strings.Cut(section, "```sh\n")
	block, _, ok := strings.Cut(block, "```")
	lines := strings.Split(strings.TrimSpace(block), "\n")
	folder, cd := strings.CutPrefix(lines[0], "cd ")
	if !ok || !cd || len(lines) < 8 {
		t.Fatal(lines)
	}
	dir := t.TempDir()
	t.Chdir(filepath.Join("../..", folder))
	for _, line := range lines[1:] {
		line, _, _ = strings.Cut(line, " #")
		line = strings.ReplaceAll(line, "/tmp/", filepath.ToSlash(dir)+"/")
		var args []string
		for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
			args = append(args, m[1]+m[2])
		}
		if args[0] != "tensormap" {
			t.Fatal(line)
		}
		done(t, args[1:]...)
	}
}

// misspelled says which verb or flag of a command line the command lacks, or nothing.
func misspelled(root *cobra.Command, args []string) string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd == root && !strings.HasPrefix(args[0], "-") {
		return "no such verb"
	}
	cmd.InitDefaultHelpFlag()
	for _, arg := range args {
		arg = regexp.MustCompile(`[\[=].*`).ReplaceAllString(strings.Trim(arg, "[](),.:'\""), "")
		if strings.HasPrefix(arg, "-") && arg != "-" && !has(cmd, arg) {
			return "no such flag: " + arg
		}
	}
	return ""
}

// has reports whether a command takes a flag, --name or -n.
func has(cmd *cobra.Command, flag string) bool {
	for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags(), cmd.PersistentFlags()} {
		if name, long := strings.CutPrefix(flag, "--"); long && set.Lookup(name) != nil || !long && set.ShorthandLookup(flag[1:2]) != nil {
			return true
		}
	}
	return false
}

// anyHas reports whether a command or any of its verbs takes a flag.
func anyHas(cmd *cobra.Command, flag string) bool {
	if has(cmd, flag) {
		return true
	}
	for _, verb := range cmd.Commands() {
		if anyHas(verb, flag) {
			return true
		}
	}
	return false
}

// TestTroubleshooting provokes the messages that docs/troubleshooting.md explains, and wants each of them on the page.
func TestTroubleshooting(t *testing.T) {
	page := documents(t)["docs/troubleshooting.md"]
	var explained []*regexp.Regexp
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(page, -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			anything := regexp.MustCompile(`\b(FILE|NAME|N|DIGEST)\b`)
			explained = append(explained, regexp.MustCompile(anything.ReplaceAllLiteralString(regexp.QuoteMeta(m[1]), ".+")))
		}
	}
	provoked := provoke(t)
	for _, message := range provoked {
		if !slices.ContainsFunc(explained, func(r *regexp.Regexp) bool { return r.MatchString(message) }) {
			t.Errorf("the page lacks %q", message)
		}
	}
	for _, r := range explained {
		if !slices.ContainsFunc(provoked, r.MatchString) {
			t.Errorf("no command says %q", r)
		}
	}
}

// provoke returns messages of commands that fail, and of errors that only a program meets.
func provoke(t *testing.T) (messages []string) {
	messages = []string{
		mmapio.ErrFault.Error(), mmapio.ErrMisaligned.Error(), loader.ErrChanged.Error(), loader.ErrClosed.Error(),
		loader.ErrRange.Error(), loader.ErrTooLarge.Error(), httprange.ErrStalled.Error(), httprange.ErrUnversioned.Error(),
		"unexpected fault address", // of Go's runtime
	}
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, content, 0o600)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	of := func(fixture string) []byte {
		content, err := os.ReadFile("../../testdata/" + fixture)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	fails := func(args ...string) {
		t.Helper()
		r := tensormap(args...)
		if r.status == exitDone {
			t.Errorf("%q succeeds", args)
		}
		messages = append(messages, r.stderr)
	}

	model := of("safetensors/minilm-slice.safetensors")
	good := file("good/model.safetensors", model)
	fails("inspect", file("lfs.safetensors", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")))
	fails("inspect", file("page.gguf", []byte("<!DOCTYPE html><html>")))
	fails("inspect", file("pytorch_model.bin", []byte("PK\x03\x04 and more")))
	fails("inspect", file("empty.gguf", nil))
	fails("inspect", file("head.safetensors", model[:100]))
	fails("inspect", file("cut.safetensors", model[:2000]))
	fails("verify", "../../testdata/apr2/badcrc.apr")
	fails("inspect", good, "--max-header", "100B")
	file("two/a.safetensors", model)
	fails("inspect", filepath.Dir(file("two/b.safetensors", model)))
	fails("inspect", filepath.Dir(file("none/readme.txt", nil)))
	fails("inspect", filepath.Dir(file("shards/model-00001-of-00004.safetensors", of("shards/safetensors/model-00001-of-00004.safetensors"))))
	fails("inspect", file("shards/model.safetensors.index.json", of("shards/safetensors/model.safetensors.index.json")))
	fails("inspect", file("split/model-00001-of-00004.gguf", of("shards/gguf/model-00001-of-00004.gguf")))
	fails("inspect", "gs://bucket/model.gguf")

	fails("dump", good, "embeddings.word_embeddings.weigth")
	fails("stats", good, "--filter", "nothing*")
	awq := file("awq/model.safetensors", of("quantized/awq-gemm/model.safetensors"))
	file("awq/config.json", bytes.ReplaceAll(of("quantized/awq-gemm/config.json"), []byte(`"bits": 4`), []byte(`"bits": 3`)))
	fails("dump", awq, "model.embed_tokens.qweight")
	fails("convert", awq, filepath.Join(dir, "awq.gguf"))

	fails("convert", good, good)
	fails("convert", good, filepath.Join(dir, "weights.xyz"))
	fails("split", good, filepath.Join(dir, "parts.gguf"), "--shard-size", "1")

	key, other := filepath.Join(dir, "k.pem"), filepath.Join(dir, "other.pem")
	done(t, "keygen", "-o", key)
	done(t, "keygen", "-o", other)
	done(t, "sign", filepath.Dir(good), "--key", key)
	bundle, public := filepath.Join(dir, "good", "model.sig"), filepath.Join(dir, "k.pub.pem")
	fails("inspect", good, "--signature", bundle, "--key", filepath.Join(dir, "other.pub.pem"))
	fails("verify", good, "--key", public)
	fails("inspect", file("good/extra.safetensors", model), "--signature", bundle, "--key", public)
	file("good/model.safetensors", append(model[:len(model)-1:len(model)-1], 1))
	fails("inspect", good, "--signature", bundle, "--key", public)
	encrypted := filepath.Join(dir, "encrypted.apr")
	done(t, "convert", filepath.Join(dir, "two", "a.safetensors"), encrypted, "--encrypt", file("k.key", make([]byte, 32)))
	fails("stats", encrypted, "--decrypt", file("other.key", bytes.Repeat([]byte{1}, 32)))
	fails("stats", encrypted)
	open := file("open.key", make([]byte, 32))
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "windows" { // which has other modes
		messages = append(messages, "others may read or change it (mode 0644)")
	} else {
		fails("stats", encrypted, "--decrypt", open)
	}

	messages = append(messages, provokeOpen(t, filepath.Join(dir, "two", "a.safetensors"), encrypted)...)

	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		status := http.StatusInternalServerError
		if _, err := fmt.Sscanf(req.URL.Path, "/%d.gguf", &status); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		_, _ = w.Write(make([]byte, 1<<20)) // more than the head that opening reads anyway
	}))
	defer s.Close()
	for _, status := range []string{"401", "403", "404", "200"} {
		fails("inspect", s.URL+"/"+status+".gguf")
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Setenv("HF_HOME", dir)
	fails("inspect", "hf://org/model")
	return messages
}

// provokeOpen returns messages of methods of an open model, of the files that are called plain and encrypted.
func provokeOpen(t *testing.T, plain, encrypted string) (messages []string) {
	fails := func(err error) {
		t.Helper()
		if err == nil {
			t.Fatal("no error")
		}
		messages = append(messages, err.Error())
	}
	open := func(path string, opts *loader.Options) *loader.Model {
		m, err := loader.Open(path, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	m := open(plain, &loader.Options{NoMap: true})
	shared := make([]byte, 1000)
	for _, buffers := range [][][]byte{nil, {shared, shared}, {shared[:1], shared[1:]}} {
		_, err := m.StreamAll(t.Context(), &loader.StreamOptions{Buffers: buffers}, nil)
		fails(err)
	}
	quantized := open("../../testdata/quantized/gptq-sym/model.safetensors", nil)
	_, err := quantized.StreamAll(t.Context(), &loader.StreamOptions{Buffers: [][]byte{make([]byte, 1<<20), make([]byte, 1<<20)}}, nil)
	fails(err)
	_, err = m.Region(t.Context(), 0)
	fails(err)
	_, err = open(encrypted, nil).Region(t.Context(), 0)
	fails(err)
	_, err = m.Footprint(&loader.FootprintOptions{KV: layout.I32})
	fails(err)
	return messages
}

// documents returns the text of each Markdown file of the module, by its path below the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	pages := make(map[string]string)
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".md" {
			return err
		}
		text, err := os.ReadFile(file)
		pages[strings.TrimPrefix(filepath.ToSlash(file), "../../")] = string(text)
		return err
	})
	if err != nil || pages["README.md"] == "" {
		t.Fatal(len(pages), err)
	}
	return pages
}
