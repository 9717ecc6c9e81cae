package peers

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
)

// startMirror starts the reference registry as a cache of another one, which it asks for what it lacks. It stores in memory: its
// scheduler writes its state every five seconds until the process ends, also into a folder that the test has removed.
func startMirror(t *testing.T, origin *registryServer) *registryServer {
	t.Helper()
	config := &configuration.Configuration{
		Storage: configuration.Storage{"inmemory": nil},
		Proxy:   configuration.Proxy{RemoteURL: "http://" + origin.host},
	}
	config.HTTP.Secret = "secret"
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s := new(registryServer)
	server := httptest.NewServer(s.Record(handlers.NewApp(ctx, config)))
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	return s
}

// TestMirror lets machines pull a model through a mirror, one after the other as in a rolling start, until the origin sends
// none of it. A mirror stores what it sends only if nobody else asks for it at the same time, so that the second machine may find
// it without the weights, too.
func TestMirror(t *testing.T) {
	environment(t)
	origin := startRegistry(t, nil)
	mirror := startMirror(t, origin)
	data := bytesOf(size, 1)
	push(t, artifact(t, pack+"config.v1+json",
		layer{pack + "weight.v1.raw", "model.safetensors", weights("w", data)},
		layer{pack + "weight.config.v1.raw", "config.json", []byte(`{"model_type": "bert", "hidden_size": 64}`)},
	), origin.host+"/models/one:v1")
	address := "oci://" + mirror.host + "/models/one:v1"
	if _, err := remote.Open(t.Context(), address, nil); !errors.Is(err, httprange.ErrNoRanges) || !strings.Contains(err.Error(), "pull") {
		t.Errorf("read by ranges from a mirror that lacks the model: %v", err)
	}
	for machine := 0; ; machine++ {
		origin.Take()
		environment(t) // a cache of its own
		pulled, err := remote.Pull(t.Context(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		m, err := loader.Open(pulled.Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		want(t, m, "w", data)
		configured(t, m)
		m.Close()
		if left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tensormap", "*.data")); len(left) > 0 {
			t.Errorf("left in the cache: %q", left)
		}
		_, _, sent := count(origin.Take())
		if sent == 0 {
			break
		}
		if machine > 20 {
			t.Fatalf("machine %d: the origin sent %d bytes", machine, sent)
		}
		time.Sleep(20 * time.Millisecond) // the mirror stores what it has sent
	}
	environment(t)
	want(t, open(t, address), "w", data) // by ranges, now that the mirror has it
	if _, _, sent := count(origin.Take()); sent > 0 {
		t.Errorf("read by ranges: the origin sent %d bytes", sent)
	}
}
