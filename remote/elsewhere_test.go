package remote_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote"
)

// What Ollama's store has complete is not fetched from the Hub: it is read there, and pulled from there.
func TestElsewhere(t *testing.T) {
	h := hubtest.New(t, sharded())
	store := t.TempDir()
	t.Setenv("OLLAMA_MODELS", store)
	content := h.Files["model-00002-of-00004.safetensors"]
	blob := filepath.Join(store, "blobs", "sha256-"+hubtest.Digest(content))
	if err := os.MkdirAll(filepath.Dir(blob), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blob, content, 0o666); err != nil {
		t.Fatal(err)
	}
	m := open(t, "hf://org/model")
	h.Take()
	want(t, m, h, "w1")
	if requests := h.Take(); len(requests) > 0 {
		t.Errorf("asked: %v", requests)
	}
	m.Close()
	<-m.Done()
	linked := filepath.Join(os.Getenv("HF_HOME"), "hub", "models--org--model", "blobs", hubtest.Digest(content))
	if a, err := os.Stat(blob); err != nil {
		t.Error(err)
	} else if b, err := os.Stat(linked); err != nil || !os.SameFile(a, b) {
		t.Errorf("the next process compares the digest again: %v", err)
	}
	pulled, err := remote.Pull(t.Context(), "hf://org/model", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, sent := count(h.Take()); sent > 3*shardBytes+1<<20 {
		t.Errorf("%d bytes came", sent)
	}
	if got, err := os.ReadFile(filepath.Join(pulled.Path, "model-00002-of-00004.safetensors")); err != nil || string(got) != string(content) {
		t.Error(err)
	}
	if _, err := os.Stat(blob); err != nil {
		t.Error(err)
	}
}

// completing is a log's handler that calls pull when the message comes that a file of another cache is not used.
type completing struct {
	slog.Handler
	pull func()
}

func (c completing) Enabled(context.Context, slog.Level) bool { return true }

func (c completing) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "is not used") {
		c.pull()
	}
	return nil
}

// A file that another completes between the look for it in the cache and the look for its incomplete part is not fetched again. The
// moment is that of the message that another cache has a wrong file.
func TestCompletedMeanwhile(t *testing.T) {
	h := hubtest.New(t, sharded())
	content := h.Files["model-00002-of-00004.safetensors"]
	lastLooked := filepath.Join(os.Getenv("HF_HOME"), "hub", "models--z--model", "blobs", hubtest.Digest(content))
	writeAt(t, lastLooked, make([]byte, len(content)))
	pull := sync.OnceFunc(func() {
		quiet := &remote.Options{Loader: &loader.Options{Logger: slog.New(slog.DiscardHandler)}}
		if _, err := remote.Pull(t.Context(), "hf://org/model", quiet); err != nil {
			t.Error(err)
		}
		h.Take()
	})
	m, err := remote.Open(t.Context(), "hf://org/model", &remote.Options{Loader: &loader.Options{Logger: slog.New(completing{slog.DiscardHandler, pull})}})
	m = modeltest.Opened(t, m, err)
	want(t, m, h, "w1")
	if requests := h.Take(); len(requests) > 0 {
		t.Errorf("asked: %v", requests)
	}
}

// What another repository's cache has under the name of a file is not that file before its digest is right: other programs take a
// server's word for it.
func TestElsewhereLies(t *testing.T) {
	for _, nocache := range []bool{false, true} {
		h := hubtest.New(t, sharded())
		store := t.TempDir()
		t.Setenv("OLLAMA_MODELS", store)
		content := h.Files["model-00002-of-00004.safetensors"]
		wrong := append(content[:len(content)-4:len(content)-4], 1, 2, 3, 4)
		name := hubtest.Digest(content)
		for _, blob := range []string{
			filepath.Join(store, "blobs", "sha256-"+name),
			filepath.Join(os.Getenv("HF_HOME"), "hub", "models--mallory--model", "blobs", name),
		} {
			writeAt(t, blob, wrong)
		}
		var log lockedBuffer
		opts := &remote.Options{NoCache: nocache, Loader: &loader.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		m, err := remote.Open(t.Context(), "hf://org/model", opts)
		m = modeltest.Opened(t, m, err)
		want(t, m, h, "w1")
		m.Close()
		<-m.Done()
		if said := log.String(); strings.Count(said, "is not used") < 2 || !strings.Contains(said, "models--mallory--model") {
			t.Error(said)
		}
		pulled, err := remote.Pull(t.Context(), "hf://org/model", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(pulled.Path, "model-00002-of-00004.safetensors")); err != nil || string(got) != string(content) {
			t.Error("wrong bytes were pulled", err)
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}
