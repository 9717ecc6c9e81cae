package remote_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
)

// withoutList starts a server of a bucket that may be read and not listed. It answers as Amazon's documentation has it: without
// ListBucket, a key that does not exist is refused as well (GetObject of S3's API, "Permissions").
func withoutList(t *testing.T, files map[string][]byte) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[strings.TrimPrefix(r.URL.Path, "/bucket/")]
		if !ok {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`)
			return
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%x-%d"`, content[len(content)-8:], len(content)))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(s.Close)
	newCaches(t)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": s.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(name, value)
	}
	return s
}

// TestUnlisted: credentials that may read objects, and list none, open and pull what is named in full, with the files that it names.
// So it is offline.
func TestUnlisted(t *testing.T) {
	files := map[string][]byte{"m/config.json": []byte(`{"hidden_size": 64}`), "one.safetensors": webModel(1)}
	for name, content := range sharded() {
		if name != "config.json" {
			files["m/"+name] = content
		}
	}
	withoutList(t, files)
	index := "s3://bucket/m/model.safetensors.index.json"
	for _, offline := range []string{"", "1"} {
		t.Setenv("HF_HUB_OFFLINE", offline)
		m := open(t, "s3://bucket/one.safetensors")
		if !bytes.HasSuffix(files["one.safetensors"], bytesOf(t, m, "w")) {
			t.Error("wrong bytes")
		}
		if _, err := m.Config(t.Context()); err != nil && offline == "" { // it is not there
			t.Error(err)
		}
		m.Close()
		<-m.Done()
		m = open(t, index)
		if !bytes.HasSuffix(files["m/model-00002-of-00004.safetensors"], bytesOf(t, m, "w1")) {
			t.Error("wrong bytes of a shard")
		}
		c, err := m.Config(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.Int("hidden_size"); n != 64 || err != nil {
			t.Error(n, err)
		}
		m.Close()
		<-m.Done()
	}
	t.Setenv("HF_HUB_OFFLINE", "")
	pulled, err := remote.Pull(t.Context(), index, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(filepath.Dir(pulled.Files[0]), "model-00003-of-00004.safetensors")); err != nil || !bytes.Equal(got, files["m/model-00003-of-00004.safetensors"]) {
		t.Error(err)
	}
	delete(files, "m/model-00001-of-00004.safetensors")
	newCaches(t)
	if err := refused(t, index); !strings.Contains(err.Error(), "model-00001-of-00004.safetensors") || !strings.Contains(err.Error(), "may not be read") {
		t.Error(err)
	}
	for _, address := range []string{"s3://bucket/none.safetensors", "s3://bucket/m/", "s3://bucket/m"} {
		if err := refused(t, address); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// elsewhere is a transport that asks one server for all.
type elsewhere struct{ *url.URL }

func (e elsewhere) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host, req.URL.Path = e.Scheme, e.Host, "/bucket"+req.URL.Path
	return http.DefaultTransport.RoundTrip(req)
}

// TestNoMetadata: a machine without metadata of a cloud is asked for them once, not before every request.
func TestNoMetadata(t *testing.T) {
	files := map[string][]byte{"model.safetensors": webModel(1)}
	at, err := url.Parse(withoutList(t, files).URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	for disabled, want := range map[string]int64{"true": 0, "": 1} {
		var asked atomic.Int64
		nobody := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			asked.Add(1)
			panic(http.ErrAbortHandler) // as if nobody were there
		}))
		t.Cleanup(nobody.Close)
		t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", nobody.URL+"/")
		t.Setenv("AWS_EC2_METADATA_DISABLED", disabled)
		for range 2 { // in all of a process
			m, err := remote.Open(t.Context(), "s3://bucket/model.safetensors", &remote.Options{
				NoCache: true, HTTP: &httprange.Options{Client: &http.Client{Transport: elsewhere{at}}, RequestBytes: 1 << 20},
			})
			m = modeltest.Opened(t, m, err)
			if !bytes.HasSuffix(files["model.safetensors"], bytesOf(t, m, "w")) {
				t.Error("wrong bytes")
			}
		}
		if n := asked.Load(); n != want {
			t.Errorf("metadata were asked for %d times, want %d", n, want)
		}
	}
}
