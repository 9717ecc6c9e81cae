package remote_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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
)

// storage is where servers keep a file: it has one version of it at a time.
type storage struct {
	*httptest.Server
	sync.Mutex
	content    []byte
	header     map[string]string // that tells the version
	unchecked  bool              // conditions of requests are ignored, as some servers do
	conditions []string          // of the requests for ranges
}

func newStorage(t *testing.T) *storage {
	s := new(storage)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Lock()
		defer s.Unlock()
		if r.Method == http.MethodGet {
			s.conditions = append(s.conditions, r.Header.Get("If-Match")+r.Header.Get("If-Unmodified-Since"))
		}
		if s.unchecked {
			r.Header.Del("If-Match")
			r.Header.Del("If-Unmodified-Since")
		}
		var modified time.Time
		for name, value := range s.header {
			if name == "Last-Modified" {
				modified, _ = http.ParseTime(value)
			} else {
				w.Header().Set(name, value)
			}
		}
		http.ServeContent(w, r, "", modified, bytes.NewReader(s.content))
	}))
	t.Cleanup(s.Close)
	return s
}

// storedFile starts a storage of this content, which serve's server, one of servedBy, sends others to. It returns the address of the model
// too. The caches are empty.
func storedFile(t *testing.T, serve func(t *testing.T, s *storage, digest string, size int) string, content []byte, header map[string]string) (s *storage, address string) {
	hubtest.New(t, nil) // for the environment
	t.Setenv("OLLAMA_MODELS", t.TempDir())
	s = newStorage(t)
	s.become(content, header)
	return s, serve(t, s, hubtest.Digest(content), len(content))
}

// become makes the file another version.
func (s *storage) become(content []byte, header map[string]string) {
	s.Lock()
	defer s.Unlock()
	s.content, s.header, s.conditions = content, header, nil
}

const halfBytes = 1 << 20

// twoHalves returns a file of two tensors, all of whose bytes are value.
func twoHalves(value byte) []byte {
	half := bytes.Repeat([]byte{value}, halfBytes)
	return modeltest.SafeTensors(modeltest.Tensor{Name: "a", DType: layout.U8, Shape: []int{halfBytes}, Data: half},
		modeltest.Tensor{Name: "b", DType: layout.U8, Shape: []int{halfBytes}, Data: half})
}

// servedBy are servers that name a file by its digest, and send whoever asks to the storage. Each returns the address of
// the model. The digest is that of the first version.
var servedBy = map[string]func(t *testing.T, s *storage, digest string, size int) (address string){
	"a hub": func(t *testing.T, s *storage, digest string, size int) string {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasPrefix(r.URL.Path, "/api/models/org/model/revision/"):
				fmt.Fprintf(w, `{"sha": %q}`, strings.Repeat("c0ffee01", 5))
			case strings.HasPrefix(r.URL.Path, "/api/models/org/model/tree/"):
				fmt.Fprintf(w, `[{"type":"file","path":"model.safetensors","size":%d,"oid":%q,"lfs":{"oid":%q,"size":%[1]d}}]`,
					size, strings.Repeat("a", 40), digest)
			default:
				http.Redirect(w, r, s.URL, http.StatusFound)
			}
		}))
		t.Cleanup(h.Close)
		t.Setenv("HF_ENDPOINT", h.URL)
		return "hf://org/model"
	},
	"a registry": func(t *testing.T, s *storage, digest string, size int) string {
		return registryOf(t, s, digest, size, "application/vnd.cncf.model.weight.v1.raw", `{"org.cncf.model.filepath": "model.safetensors"}`)
	},
	"a registry, of Ollama's layers": func(t *testing.T, s *storage, digest string, size int) string {
		return registryOf(t, s, digest, size, "application/vnd.ollama.image.tensor", `{}`)
	},
}

// registryOf returns the address of an artifact with one layer.
func registryOf(t *testing.T, s *storage, digest string, size int, mediaType, annotations string) string {
	manifest, _ := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"layers": []any{map[string]any{"mediaType": mediaType, "digest": "sha256:" + digest, "size": size, "annotations": json.RawMessage(annotations)}},
	})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/manifests/") {
			w.Write(manifest)
			return
		}
		http.Redirect(w, r, s.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(h.Close)
	return "oci://" + strings.TrimPrefix(h.URL, "http://") + "/org/model:v1"
}

// valueOf returns the value that all bytes of a tensor have.
func valueOf(t *testing.T, m *loader.Model, name string) (value byte, err error) {
	t.Helper()
	x, err := m.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x.Bytes()
	if err != nil {
		return 0, err
	}
	if len(b) != halfBytes || bytes.Count(b, b[:1]) != halfBytes {
		t.Errorf("%s has bytes of two versions", name)
	}
	return b[0], nil
}

// TestVersionsDoNotMix: what one opening has read of a file, and left in the cache, and what the next one reads are of one
// version of the storage, or there is an error. The one after that begins anew.
func TestVersionsDoNotMix(t *testing.T) {
	const old, fresh = "Mon, 01 Jan 2024 00:00:00 GMT", "Tue, 02 Jan 2024 00:00:00 GMT"
	for name, test := range map[string]struct {
		one, two map[string]string
		kept     bool // what has come of the first version
	}{
		"strong ETag":            {map[string]string{"ETag": `"1"`}, map[string]string{"ETag": `"2"`}, true},
		"date":                   {map[string]string{"Last-Modified": old}, map[string]string{"Last-Modified": fresh}, true},
		"date and weak ETag":     {map[string]string{"Last-Modified": old, "ETag": `W/"1"`}, map[string]string{"Last-Modified": old, "ETag": `W/"2"`}, true},
		"weak ETag":              {map[string]string{"ETag": `W/"1"`}, map[string]string{"ETag": `W/"2"`}, false},
		"nothing":                {nil, nil, false},
		"strong ETag is lost":    {map[string]string{"ETag": `"1"`}, nil, true},
		"strong ETag has come":   {nil, map[string]string{"ETag": `"2"`}, false},
		"ETag of the same bytes": {map[string]string{"ETag": `"1"`}, map[string]string{"ETag": `"2"`}, true},
	} {
		for server, serve := range servedBy {
			for _, unchecked := range []bool{false, true} {
				if server != "a hub" && (unchecked || name != "strong ETag" && name != "nothing") {
					continue // it is the same way
				}
				t.Run(fmt.Sprintf("%s/%s/unchecked=%v", name, server, unchecked), func(t *testing.T) {
					one, two, second := twoHalves(1), twoHalves(2), byte(2)
					if strings.Contains(name, "same bytes") {
						two, second = one, 1
					}
					s, address := storedFile(t, serve, one, test.one)
					s.unchecked = unchecked
					m := openQuickly(t, address)
					if v, err := valueOf(t, m, "a"); v != 1 || err != nil {
						t.Fatalf("%d, %v", v, err)
					}
					m.Close()
					<-m.Done()

					s.become(two, test.two)
					m = openQuickly(t, address)
					a, errA := valueOf(t, m, "a")
					b, errB := valueOf(t, m, "b")
					switch {
					case test.kept && (a != 1 || errA != nil || !errors.Is(errB, httprange.ErrChanged)):
						t.Errorf("%d, %v; %d, %v", a, errA, b, errB)
					case !test.kept && (a != second || b != second || errA != nil || errB != nil):
						t.Errorf("%d, %v; %d, %v", a, errA, b, errB)
					}
					m.Close()
					<-m.Done()

					m = openQuickly(t, address)
					a, errA = valueOf(t, m, "a")
					b, errB = valueOf(t, m, "b")
					if a != second || b != second || errA != nil || errB != nil {
						t.Errorf("begun anew: %d, %v; %d, %v", a, errA, b, errB)
					}
				})
			}
		}
	}
}

// TestVersionIsAskedFor: a later opening reads on from the version that an earlier one has begun, and asks for that alone.
func TestVersionIsAskedFor(t *testing.T) {
	for server, serve := range servedBy {
		t.Run(server, func(t *testing.T) {
			content, header := twoHalves(1), map[string]string{"ETag": `"1"`}
			s, address := storedFile(t, serve, content, header)
			for _, name := range []string{"a", "b"} {
				s.become(content, header)
				m := openQuickly(t, address)
				if v, err := valueOf(t, m, name); v != 1 || err != nil {
					t.Errorf("%d, %v", v, err)
				}
				m.Close()
				<-m.Done()
			}
			s.Lock()
			defer s.Unlock()
			for _, c := range s.conditions {
				if c != `"1"` {
					t.Errorf("conditions %q", s.conditions)
				}
			}
			if len(s.conditions) == 0 {
				t.Error("nothing was asked for")
			}
		})
	}
}

// TestPullBeginsAnew: a file whose storage names it in another way now is pulled from its beginning, and is right.
func TestPullBeginsAnew(t *testing.T) {
	content := twoHalves(1)
	s, address := storedFile(t, servedBy["a hub"], content, map[string]string{"ETag": `"1"`})
	m := openQuickly(t, address)
	valueOf(t, m, "a")
	m.Close()
	<-m.Done()
	s.become(content, map[string]string{"ETag": `"2"`})
	if _, err := remote.Pull(t.Context(), address, nil); err != nil {
		t.Error(err)
	}
}

// TestWebStorageChanges: of a plain address that redirects, the version is that of the storage. A later opening has all of
// the version of now.
func TestWebStorageChanges(t *testing.T) {
	hubtest.New(t, nil)
	s := newStorage(t)
	s.become(twoHalves(1), map[string]string{"ETag": `"1"`})
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"of the redirect"`)
		http.Redirect(w, r, s.URL, http.StatusFound)
	}))
	defer home.Close()
	for version := byte(1); version < 3; version++ {
		s.become(twoHalves(version), map[string]string{"ETag": fmt.Sprintf(`"%d"`, version)})
		for _, name := range []string{"a", "b"} { // each by an opening of its own
			if v, err := valueOf(t, openQuickly(t, home.URL+"/m.safetensors"), name); v != version || err != nil {
				t.Errorf("version %d, %s: %d, %v", version, name, v, err)
			}
		}
	}
}

// TestShardsOfTwoVersions: the shards of a model are files apart, and each of them is of one version.
func TestShardsOfTwoVersions(t *testing.T) {
	h := hubtest.New(t, sharded())
	m := open(t, "hf://org/model")
	want(t, m, h, "w0")
	m.Close()
	<-m.Done()
	const changed = "model-00001-of-00004.safetensors"
	h.Lock()
	h.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, changed) {
			w.Header().Set("ETag", `"other"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, len(h.Files[changed]))))
			return true
		}
		return false
	}
	h.Unlock()
	want(t, open(t, "hf://org/model"), h, "w0", "w1", "w2", "w3")
}

// TestContentID: the ID of a file differs between its versions, and is none without a validator that is strong.
func TestContentID(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	s := newStorage(t)
	idOf := func(value byte, header map[string]string) string {
		t.Helper()
		s.become(twoHalves(value), header)
		m, err := remote.Open(t.Context(), s.URL+"/model.safetensors", nil)
		return modeltest.Opened(t, m, err).Files()[0].ContentID
	}
	one, two, again := idOf(1, map[string]string{"ETag": `"1"`}), idOf(2, map[string]string{"ETag": `"2"`}), idOf(1, map[string]string{"ETag": `"1"`})
	if one == "" || one == two || one != again {
		t.Errorf("%q, %q, %q", one, two, again)
	}
	if weak := idOf(3, map[string]string{"ETag": `W/"3"`}); weak != "" {
		t.Errorf("%q of a weak ETag", weak)
	}
}
