package blob_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
	"github.com/tensormap/tensormap/remote/blob"
	gcblob "gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
)

// server is a server of one service, with an empty bucket called models.
type server struct {
	modeltest.Recorder
	root      string      // of addresses
	condition string      // the header that goes with every read
	cut       atomic.Bool // long answers to reads
	stall     atomic.Bool // every answer after 100 bytes
	bucket    *gcblob.Bucket
}

// TestServers runs all tests of servers on each that there is. gocloud.dev reads Azure's environment once.
func TestServers(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *server{"Google": startGoogle, "Azure": startAzure} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			b, err := gcblob.OpenBucket(t.Context(), s.root)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			s.bucket = b
			for name, test := range map[string]func(*testing.T, *server){"changes": testChanges, "stored bytes": testStoredBytes, "cut": testCut, "stalls": testStalls, "refuses": testRefuses} {
				t.Run(name, func(t *testing.T) {
					t.Setenv("XDG_CACHE_HOME", t.TempDir())
					test(t, s)
				})
			}
		})
	}
}

type readCloser struct {
	io.Reader
	io.Closer
}

// endless gives nothing until its context ends.
type endless struct{ ctx context.Context }

func (e endless) Read([]byte) (int, error) {
	<-e.ctx.Done()
	return 0, e.ctx.Err()
}

// start starts the program that the environment's variable names, and records what reaches it.
func (s *server) start(t *testing.T, variable string, modify func(*http.Response) error, args func(host, port string) []string) (host string) {
	t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		t.Skipf("%s names no program", variable)
	}
	var target *url.URL
	front := httptest.NewServer(s.Record(&httputil.ReverseProxy{ModifyResponse: func(r *http.Response) error {
		switch body := r.Body; {
		case s.stall.Load():
			r.Body = readCloser{io.MultiReader(io.LimitReader(body, 100), endless{r.Request.Context()}), body}
		case s.cut.Load() && r.StatusCode == http.StatusPartialContent:
			r.Body = readCloser{io.LimitReader(body, 300_000), body}
		}
		return modify(r)
	}, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}))
	t.Cleanup(front.Close)
	host = strings.TrimPrefix(front.URL, "http://")
	target = modeltest.StartServer(t, func(port string) *exec.Cmd {
		cmd := exec.Command(program, args(host, port)...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS=people:"+azureKey)
		return cmd
	})
	return host
}

// startGoogle starts fsouza/fake-gcs-server, which FAKE_GCS names. It does not compare generations in
// reads: the proxy before it refuses what Google refuses.
func startGoogle(t *testing.T) *server {
	s := &server{root: "gs://models", condition: "X-Goog-If-Generation-Match"}
	host := s.start(t, "FAKE_GCS", func(r *http.Response) error {
		if asked := r.Request.Header.Get(s.condition); asked != "" && r.Header.Get("X-Goog-Generation") != asked {
			r.StatusCode = http.StatusPreconditionFailed
		}
		return nil
	}, func(host, port string) []string {
		return []string{"-scheme", "http", "-host", "127.0.0.1", "-port", port, "-backend", "memory", "-public-host", host}
	})
	t.Setenv("STORAGE_EMULATOR_HOST", host)
	resp, err := http.Post("http://"+host+"/storage/v1/b", "application/json", strings.NewReader(`{"name": "models"}`))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	return s
}

var azureKey = base64.StdEncoding.EncodeToString([]byte("the key of people"))

// startAzure starts Azurite's blob service, which AZURITE names.
func startAzure(t *testing.T) *server {
	s := &server{root: "azblob://models", condition: "If-Match"}
	host := s.start(t, "AZURITE", func(*http.Response) error { return nil }, func(_, port string) []string {
		return []string{"--blobPort", port, "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent"}
	})
	for name, value := range map[string]string{
		"AZURE_STORAGE_ACCOUNT": "people", "AZURE_STORAGE_KEY": azureKey, "AZURE_STORAGE_DOMAIN": host, "AZURE_STORAGE_PROTOCOL": "http",
		"AZURE_STORAGE_IS_LOCAL_EMULATOR": "true", "AZURE_STORAGE_SAS_TOKEN": "", "AZURE_STORAGE_CONNECTION_STRING": "",
	} {
		t.Setenv(name, value)
	}
	b, err := gcblob.OpenBucket(t.Context(), s.root)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var client *container.Client
	if !b.As(&client) {
		t.Fatal("no client")
	}
	if _, err := client.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// A changed object is an error for what is open, and another one for the next, however fast it changes.
// Every read is of the version that was listed.
func testChanges(t *testing.T, s *server) {
	old, first := content("a", 1)
	fresh, second := content("a", 9)
	put(t, s.bucket, "people/llama/model.safetensors", old)
	put(t, s.bucket, "people/llama/config.json", []byte(`{"hidden_size": 64}`))
	m, err := blob.Open(t.Context(), s.root+"/people/llama", nil)
	modeltest.Opened(t, m, err)
	put(t, s.bucket, "people/llama/model.safetensors", fresh) // within a second, and of the same size
	tensor, err := m.Tensor("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tensor.Bytes(); !errors.Is(err, httprange.ErrChanged) {
		t.Error(err)
	}
	s.Take()
	again, err := blob.Open(t.Context(), s.root+"/people/llama", nil)
	modeltest.Opened(t, again, err)
	want(t, again, "a", second)
	var reads int
	for _, r := range s.Take() {
		if r.Range == "" && r.Header.Get("X-Ms-Range") == "" {
			continue
		}
		if reads++; r.Header.Get(s.condition) == "" {
			t.Errorf("a read without %s: %v", s.condition, r.Header)
		}
	}
	if reads == 0 || reads > 2 {
		t.Errorf("%d reads", reads)
	}
	put(t, s.bucket, "people/llama/model.safetensors", old)
	pulled, err := blob.Pull(t.Context(), s.root+"/people/llama/model.safetensors", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(pulled.Path); err != nil || !bytes.Equal(got, old) {
		t.Errorf("pulled to %s: %v", pulled.Path, err)
	}
	last, err := blob.Open(t.Context(), s.root+"/people/llama", nil)
	modeltest.Opened(t, last, err)
	want(t, last, "a", first)
}

// What the bytes of an object are is no matter of its Content-Encoding.
func testStoredBytes(t *testing.T, s *server) {
	file, data := content("a", 5)
	if err := s.bucket.WriteAll(t.Context(), "model.safetensors", file, &gcblob.WriterOptions{ContentEncoding: "gzip"}); err != nil {
		t.Fatal(err)
	}
	m, err := blob.Open(t.Context(), s.root+"/model.safetensors", nil)
	modeltest.Opened(t, m, err)
	want(t, m, "a", data)
}

// What comes in pieces is put together.
func testCut(t *testing.T, s *server) {
	file, data := content("a", 5)
	put(t, s.bucket, "model.safetensors", file)
	s.cut.Store(true)
	defer s.cut.Store(false)
	m, err := blob.Open(t.Context(), s.root+"/model.safetensors", nil)
	modeltest.Opened(t, m, err)
	want(t, m, "a", data)
}

// A server that says nothing more is given up.
func testStalls(t *testing.T, s *server) {
	file, _ := content("a", 5)
	put(t, s.bucket, "model.safetensors", file)
	opts := &remote.Options{HTTP: &httprange.Options{Timeout: 300 * time.Millisecond}}
	m, err := blob.Open(t.Context(), s.root+"/model.safetensors", opts)
	modeltest.Opened(t, m, err)
	tensor, err := m.Tensor("a")
	if err != nil {
		t.Fatal(err)
	}
	s.stall.Store(true)
	defer s.stall.Store(false)
	if _, err := tensor.Bytes(); !errors.Is(err, httprange.ErrStalled) || strings.Count(err.Error(), "model.safetensors") != 1 {
		t.Error(err)
	}
	if _, err := blob.Open(t.Context(), s.root+"/model.safetensors", opts); !errors.Is(err, httprange.ErrStalled) {
		t.Error(err)
	}
}

// What is not there, or not for everybody, is said in a line.
func testRefuses(t *testing.T, s *server) {
	put(t, s.bucket, "model.safetensors", modeltest.SafeTensors(modeltest.Tensor{Name: "a", DType: layout.U8, Shape: []int{1}, Data: []byte{1}}))
	for _, key := range []string{"/none.safetensors", "/none/", "-none/model.safetensors"} {
		if _, err := blob.Open(t.Context(), s.root+key, nil); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", key, err)
		}
	}
	var client *container.Client
	if !s.bucket.As(&client) {
		return // every key is good for fake-gcs-server
	}
	key, err := container.NewSharedKeyCredential("people", base64.StdEncoding.EncodeToString([]byte("wrong key")))
	if err == nil {
		client, err = container.NewClientWithSharedKeyCredential(client.URL(), key, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := azureblob.OpenBucket(t.Context(), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	var status *httprange.StatusError
	_, err = remote.OpenStore(t.Context(), blob.New(wrong, s.root), "model.safetensors", nil)
	if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &status) || !strings.Contains(err.Error(), "AZURE_STORAGE_KEY") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}
