package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
	"github.com/tensormap/tensormap/shard"
)

// shardBytes is the data of each shard of sharded.
const shardBytes = 6 << 20

// sharded returns the files of a repository with a model in four shards, and what belongs to it.
func sharded() map[string][]byte {
	files := maps.Clone(shardedOnce())
	for name, content := range files {
		files[name] = bytes.Clone(content)
	}
	return files
}

var shardedOnce = sync.OnceValue(func() map[string][]byte {
	files := map[string][]byte{
		"config.json":            []byte(`{"model_type": "bert", "hidden_size": 64}`),
		"1_Pooling/config.json":  []byte(`{"pooling_mode_mean_tokens": true}`),
		"tokenizer.json":         []byte(`{"version": "1.0"}`),
		"README.md":              []byte("# model\n"),
		"onnx/model.onnx":        bytes.Repeat([]byte("no"), 2000),
		"model.fp16.safetensors": modeltest.SafeTensors(modeltest.Tensor{Name: "other", DType: layout.U8, Shape: []int{4000}, Data: make([]byte, 4000)}),
	}
	weights := make(map[string]string)
	for i := range 4 {
		data := make([]byte, shardBytes)
		for j := range data {
			data[j] = byte(j*7 + i + j>>12)
		}
		file := fmt.Sprintf("model-%05d-of-00004.safetensors", i+1)
		weights[fmt.Sprint("w", i)] = file
		files[file] = modeltest.SafeTensors(modeltest.Tensor{Name: fmt.Sprint("w", i), DType: layout.U8, Shape: []int{shardBytes / 1024, 1024}, Data: data})
	}
	index, _ := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": 4 * shardBytes}, "weight_map": weights})
	files["model.safetensors.index.json"] = index
	return files
})

func open(t *testing.T, address string) *loader.Model {
	t.Helper()
	m, err := remote.Open(t.Context(), address, nil)
	return modeltest.Opened(t, m, err)
}

func want(t *testing.T, m *loader.Model, h *hubtest.Hub, names ...string) {
	t.Helper()
	for _, name := range names {
		got := bytesOf(t, m, name)
		var file string
		fmt.Sscanf(name, "w%s", &file)
		content := h.Files[fmt.Sprintf("model-0000%d-of-00004.safetensors", file[0]-'0'+1)]
		if !bytes.Equal(got, content[len(content)-shardBytes:]) {
			t.Errorf("%s has other bytes than the Hub", name)
		}
	}
}

// count returns how many requests went to the Hub for the API and for files, and to the CDN, and the
// bytes of the latter.
func count(requests []modeltest.Request) (api, files, cdn int, sent int64) {
	for _, r := range requests {
		switch {
		case strings.HasPrefix(r.Path, hubtest.Signed):
			cdn++
			sent += r.Bytes
		case strings.HasPrefix(r.Path, "/api/"):
			api++
		default:
			files++
		}
	}
	return api, files, cdn, sent
}

// A repository of nothing but pickles says what it has, and what to use instead.
func TestPickles(t *testing.T) {
	hubtest.New(t, map[string][]byte{"pytorch_model.bin": make([]byte, 2000), "config.json": []byte("{}")})
	_, err := remote.Open(t.Context(), "hf://org/model", nil)
	if !errors.Is(err, shard.ErrNoModel) || !strings.Contains(err.Error(), "pickles, which may run programs") || !strings.Contains(err.Error(), ": pytorch_model.bin; use") {
		t.Error(err)
	}
}

func TestOpenCosts(t *testing.T) {
	h := hubtest.New(t, sharded())
	m := open(t, "hf://org/model")
	if m.Len() != 4 {
		t.Errorf("%d tensors", m.Len())
	}
	api, files, cdn, sent := count(h.Take())
	// The index and the configuration are small files; each shard is a redirect and its target.
	if api != 2 || files > 6 || cdn != 4 || sent > 4*256<<10 {
		t.Errorf("opening took %d requests of the API, %d for files, %d elsewhere with %d bytes", api, files, cdn, sent)
	}
	row, err := m.Tensor("w2")
	if err != nil {
		t.Fatal(err)
	}
	if err := row.DequantizeRows(make([]float32, 1024), 3000, 1); err != nil {
		t.Fatal(err)
	}
	if api, files, cdn, sent := count(h.Take()); api+files+cdn != 1 || sent > 2*64<<10 {
		t.Errorf("a row took %d requests and %d bytes", api+files+cdn, sent)
	}
	want(t, m, h, "w0", "w1", "w2", "w3")
	if _, _, _, sent := count(h.Take()); sent > 4*shardBytes {
		t.Errorf("%d bytes for tensors of %d", sent, 4*shardBytes)
	}
	m.Close()

	again := open(t, "hf://org/model")
	want(t, again, h, "w0", "w1", "w2", "w3")
	if api, files, cdn, _ := count(h.Take()); files+cdn != 0 || api > 1 {
		t.Errorf("opened again by %d requests of the API and %d for data", api, files+cdn)
	}
}

// What has come stays, in part or whole, and is found without a request.
func TestOffline(t *testing.T) {
	h := hubtest.New(t, sharded())
	m := open(t, "hf://org/model")
	want(t, m, h, "w1")
	m.Close()
	h.Take()
	t.Setenv("HF_HUB_OFFLINE", "yes")
	m = open(t, "hf://org/model@main")
	want(t, m, h, "w1")
	w2, err := m.Tensor("w2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w2.Bytes(); err == nil || !strings.Contains(err.Error(), "offline") {
		t.Error(err)
	}
	for _, address := range []string{"hf://org/other", "hf://org/model@" + strings.Repeat("0", 40)} {
		if _, err := remote.Open(t.Context(), address, nil); err == nil || !strings.Contains(err.Error(), "offline") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if requests := h.Take(); len(requests) > 0 {
		t.Errorf("asked offline: %v", requests)
	}
}

func TestPull(t *testing.T) {
	h := hubtest.New(t, sharded())
	h.PageSize = 3
	var last, total int64
	pulled, err := remote.Pull(t.Context(), "hf://org/model", &remote.Options{Progress: func(have, of int64) {
		if have < last {
			t.Errorf("%d after %d", have, last)
		}
		last, total = have, of
	}})
	if err != nil {
		t.Fatal(err)
	}
	path := pulled.Path
	if last != total || total < 4*shardBytes {
		t.Errorf("%d of %d bytes", last, total)
	}
	repo := filepath.Join(os.Getenv("HF_HOME"), "hub", "models--org--model")
	if path != filepath.Join(repo, "snapshots", h.Commit) {
		t.Errorf("pulled to %s", path)
	}
	var names []string
	err = filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(path, at)
		names = append(names, name)
		got, err := os.ReadFile(at)
		if err != nil || !bytes.Equal(got, h.Files[name]) {
			t.Errorf("%s has other bytes than the Hub: %v", name, err)
		}
		up := strings.Repeat("../", strings.Count(name, "/")+2)
		if target, err := os.Readlink(at); err != nil || !strings.HasPrefix(target, up+"blobs/") {
			t.Errorf("%s leads to %q: %v", name, target, err)
		}
		return nil
	})
	wanted := []string{"1_Pooling/config.json", "config.json", "model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors", "model-00003-of-00004.safetensors",
		"model-00004-of-00004.safetensors", "model.safetensors.index.json", "tokenizer.json"}
	if err != nil || !slices.Equal(names, wanted) {
		t.Errorf("pulled %q, want %q: %v", names, wanted, err)
	}
	if ref, err := os.ReadFile(filepath.Join(repo, "refs", "main")); string(ref) != h.Commit {
		t.Errorf("refs/main is %q: %v", ref, err)
	}
	blobs, _ := os.ReadDir(filepath.Join(repo, "blobs"))
	left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "*"))
	if len(blobs) != len(wanted) || len(left) != 1 || filepath.Base(left[0]) != "listings" {
		t.Errorf("%d blobs, and incomplete files %v", len(blobs), left)
	}
	if _, err := os.Stat(filepath.Join(repo, "trees")); err == nil {
		t.Error("offline, huggingface_hub would refuse a snapshot without README.md")
	}
	api, _, _, sent := count(h.Take())
	if sent > total {
		t.Errorf("%d bytes sent for %d", sent, total)
	}
	if api != 5 {
		t.Errorf("%d requests of the API for pages of 3", api)
	}

	t.Setenv("HF_HUB_OFFLINE", "1")
	m := open(t, "hf://org/model")
	want(t, m, h, "w0", "w3")
	if tensor, _ := m.Tensor("w0"); !tensor.ZeroCopy() {
		t.Error("a complete model is not mapped")
	}
	local, err := loader.Open(repo, nil)
	modeltest.Opened(t, local, err)
	if requests := h.Take(); len(requests) > 0 {
		t.Errorf("asked offline: %v", requests)
	}
}

// logged is a writer of log records, one at a time.
type logged chan string

func (l logged) Write(record []byte) (int, error) {
	l <- string(record)
	return len(record), nil
}

// A large file that has come whole gets its final place while it is next open.
func TestSettles(t *testing.T) {
	h := hubtest.New(t, sharded())
	defer func(n int64) { *remote.MostAtClose = n }(*remote.MostAtClose)
	*remote.MostAtClose = 1 << 20
	m := open(t, "hf://org/model")
	want(t, m, h, "w0")
	m.Close()
	blob := filepath.Join(os.Getenv("HF_HOME"), "hub", "models--org--model", "blobs", hubtest.Digest(h.Files["model-00001-of-00004.safetensors"]))
	if _, err := os.Stat(blob); err == nil {
		t.Error("Close waited for a digest")
	}
	log := make(logged, 100)
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	m, err := remote.Open(t.Context(), "hf://org/model", &remote.Options{Loader: &loader.Options{Logger: logger}})
	m = modeltest.Opened(t, m, err)
	for record := range log {
		if strings.Contains(record, "complete in the cache") {
			break
		}
	}
	if _, err := os.Stat(blob); err != nil {
		t.Error(err)
	}
	want(t, m, h, "w0")
}

// A tensor that has come is a view of the incomplete file, in this model and in the next.
func TestViewsOfIncomplete(t *testing.T) {
	h := hubtest.New(t, sharded())
	for i := range 2 {
		m := open(t, "hf://org/model")
		h.Take()
		want(t, m, h, "w1")
		w1, _ := m.Tensor("w1")
		if runtime.GOOS == "linux" && (!w1.ZeroCopy() || m.Stats().HeapBytes != 0) {
			t.Errorf("zero copy %v, %+v", w1.ZeroCopy(), m.Stats())
		}
		if _, _, cdn, sent := count(h.Take()); i == 1 && cdn > 0 || sent > shardBytes {
			t.Errorf("%d requests, %d bytes", cdn, sent)
		}
	}
}

// A caller's context ends what its view waits for, and nobody else's.
func TestViewCancelled(t *testing.T) {
	h := hubtest.New(t, sharded())
	m := open(t, "hf://org/model")
	asked := make(chan bool, 100)
	h.Lock()
	h.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		asked <- true
		<-r.Context().Done()
		return true
	}
	h.Unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	l, err := m.AcquireContext(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	w1, _ := l.Tensor("w1")
	late := errors.New("too late")
	go func() {
		<-asked
		cancel(late)
	}()
	if _, err := w1.Bytes(); !errors.Is(err, late) {
		t.Error(err)
	}
	h.Lock()
	h.Fault = nil
	h.Unlock()
	want(t, m, h, "w1")
}

// Every byte comes once, however many models of this process read it.
func TestManyReaders(t *testing.T) {
	h := hubtest.New(t, sharded())
	models := []*loader.Model{open(t, "hf://org/model"), open(t, "hf://org/model@"+h.Commit)}
	h.Take()
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			tensor, err := models[i%2].Tensor("w1")
			if err == nil {
				_, err = tensor.Bytes()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if _, _, _, sent := count(h.Take()); sent > shardBytes+64<<10 {
		t.Errorf("%d bytes for one tensor of %d", sent, shardBytes)
	}
}

func TestToken(t *testing.T) {
	h := hubtest.New(t, sharded())
	h.Token = "hf_secret"
	_, err := remote.Open(t.Context(), "hf://org/model", nil)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "HF_TOKEN") {
		t.Error(err)
	}
	h.Take()
	file := filepath.Join(t.TempDir(), "token")
	os.WriteFile(file, []byte("hf_secret\n"), 0o600)
	t.Setenv("HF_TOKEN_PATH", file)
	want(t, open(t, "hf://org/model"), h, "w0")
	for _, r := range h.Take() {
		if wanted := map[bool]string{false: "Bearer hf_secret", true: ""}[strings.HasPrefix(r.Path, hubtest.Signed)]; r.Authorization != wanted {
			t.Errorf("%s was sent %q", r.Path, r.Authorization)
		}
	}
	t.Setenv("HF_TOKEN", "hf_wrong")
	if _, err := remote.Open(t.Context(), "hf://org/model", nil); err == nil || strings.Contains(err.Error(), "hf_wrong") {
		t.Error(err)
	}
}

// A signed address expires while the model is open.
func TestExpiry(t *testing.T) {
	h := hubtest.New(t, sharded())
	m := open(t, "hf://org/model")
	h.Lock()
	h.Expired = 1 << 30
	h.Unlock()
	w0, _ := m.Tensor("w0")
	if _, err := w0.Bytes(); !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "HF_TOKEN") {
		t.Error(err)
	}
	h.Lock()
	h.Expired = 0
	h.Unlock()
	want(t, m, h, "w0", "w1")
}

// A signed address that is refused at once, as one that a proxy has kept for too long, is asked for again before anything
// is blamed.
func TestExpiredAtOnce(t *testing.T) {
	h := hubtest.New(t, sharded())
	h.Expired = 1 // the first that is signed
	want(t, open(t, "hf://org/model"), h, "w0")
}

// A server that lies leaves nothing wrong under a final name.
func TestLies(t *testing.T) {
	h := hubtest.New(t, sharded())
	name := "model-00002-of-00004.safetensors"
	h.Lock()
	h.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, name) {
			return false
		}
		wrong := slices.Clone(h.Files[name])
		wrong[len(wrong)-100] ^= 1
		w.Header().Set("ETag", `"lie"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(wrong))
		return true
	}
	h.Unlock()
	_, err := remote.Pull(t.Context(), "hf://org/model", nil)
	if !errors.Is(err, layout.ErrChecksum) || !strings.Contains(err.Error(), name) {
		t.Error(err)
	}
	h.Lock()
	h.Fault = nil
	h.Unlock()
	if _, err := remote.Pull(t.Context(), "hf://org/model", nil); err != nil {
		t.Error(err)
	}
	want(t, open(t, "hf://org/model"), h, "w1")
}

// The listing is the server's word: names and digests that lead out of the cache are refused.
func TestHostileListing(t *testing.T) {
	for _, name := range []string{"../evil.safetensors", "/etc/evil.safetensors", "a/../../evil.safetensors", `a\evil.safetensors`, ""} {
		h := hubtest.New(t, map[string][]byte{name: []byte("x")})
		if _, err := remote.Open(t.Context(), "hf://org/model", nil); !errors.Is(err, httprange.ErrResponse) {
			t.Errorf("%q: %v", name, err)
		}
		left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "listings", "*"))
		if len(left) > 0 {
			t.Errorf("%q: kept %v", name, left)
		}
		h.Take()
	}
	h := hubtest.New(t, sharded())
	h.Commit = "../../../../../../tmp/evil"
	if _, err := remote.Open(t.Context(), "hf://org/model", nil); !errors.Is(err, httprange.ErrResponse) {
		t.Error(err)
	}
}

// An address that is none may hold a password all the same.
func TestUserInAddress(t *testing.T) {
	for _, address := range []string{"oci://me:secret@host/model:v1", "ollama://me:secret@host/a/b", "s3://KEY:secret@bucket/key"} {
		if _, err := remote.Open(t.Context(), address, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// With NoCache no file is written, not even what a branch stands for.
func TestNoCache(t *testing.T) {
	h := hubtest.New(t, sharded())
	m, err := remote.Open(t.Context(), "hf://org/model", &remote.Options{NoCache: true})
	want(t, modeltest.Opened(t, m, err), h, "w1")
	for _, dir := range []string{os.Getenv("HF_HOME"), os.Getenv("XDG_CACHE_HOME")} {
		filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				t.Errorf("%s is kept", path)
			}
			return nil
		})
	}
}

func TestAddresses(t *testing.T) {
	h := hubtest.New(t, sharded())
	for _, address := range []string{
		"hf://org/model", "hf://models/org/model", "hf://org/model@main", "hf://org/model@" + h.Commit, "hf://org/model@refs/pr/1",
		"hf://org/model@refs%2Fpr%2F1", "hf://org/model/model.safetensors.index.json", "hf://org/model@main/model.safetensors.index.json",
		h.URL + "/org/model", h.URL + "/org/model/tree/main", h.URL + "/org/model/tree/refs%2Fpr%2F1", h.URL + "/org/model/tree/main/",
		h.URL + "/org/model/blob/main/model.safetensors.index.json",
		h.URL + "/org/model/resolve/main/model.safetensors.index.json?download=true",
	} {
		m, err := remote.Open(t.Context(), address, nil)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if m.Len() != 4 {
			t.Errorf("%s: %d tensors", address, m.Len())
		}
		m.Close()
	}
	for address, says := range map[string]string{
		"hf://org":                       "not ORG/NAME",
		"hf://org/":                      "not ORG/NAME",
		"hf://../model":                  "not ORG/NAME",
		"hf://org/a--b":                  "not ORG/NAME",
		"hf://datasets/org/model":        "datasets",
		"hf://org/model@":                "no revision",
		"hf://org/model@.":               "no revision",
		"hf://org/model@..":              "no revision",
		"hf://org/model@a%2F..%2F..":     "no revision",
		"hf://org/model/../x":            "no name",
		"hf://org/model/none":            "not exist",
		"hf://org/model@none":            "no such revision",
		"hf://org/none":                  "no such model",
		"hf://org/model/onnx":            "no model in it",
		"hf://org/model/tokenizer.json":  "tokenizer.json",
		"hf://org/model/model-00001-of-": "not exist",
	} {
		m, err := remote.Open(t.Context(), address, nil)
		if err == nil {
			m.Close()
			t.Errorf("%s opens", address)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", address, err, says)
		}
	}
}

// A plain address opens whatever is wrong with the Hub's variables.
func TestPlainAddress(t *testing.T) {
	h := hubtest.New(t, sharded())
	t.Setenv("HF_ENDPOINT", "nonsense")
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(h.Files["model.fp16.safetensors"]))
	}))
	defer plain.Close()
	if m := open(t, plain.URL+"/model"); m.Len() != 1 {
		t.Errorf("%d tensors", m.Len())
	}
	if _, err := remote.Open(t.Context(), "hf://org/model", nil); err == nil {
		t.Error("a Hub without an address opens")
	}
}

// Two revisions never mix: what is open goes on with its commit.
func TestPinned(t *testing.T) {
	h := hubtest.New(t, sharded())
	m := open(t, "hf://org/model")
	h.Take()
	h.Lock()
	old := h.Commit
	h.Commit = strings.Repeat("ab", 20)
	h.Unlock()
	w3, _ := m.Tensor("w3")
	if _, err := w3.Bytes(); err != nil {
		t.Fatal(err)
	}
	for _, r := range h.Take() {
		if !strings.HasPrefix(r.Path, hubtest.Signed) && !strings.Contains(r.Path, old) {
			t.Errorf("asked %s", r.Path)
		}
	}
}

func TestCancelled(t *testing.T) {
	h := hubtest.New(t, sharded())
	ctx, cancel := context.WithCancel(t.Context())
	h.Lock()
	h.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		cancel()
		<-r.Context().Done()
		return true
	}
	h.Unlock()
	if _, err := remote.Open(ctx, "hf://org/model", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
