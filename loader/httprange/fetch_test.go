//go:build !wasm

package httprange_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
)

// TestFetch reads a tensor from WebAssembly as a browser does: by fetch, which Node has too.
func TestFetch(t *testing.T) {
	if testmode.Brief() {
		t.Skip("runs the go command")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip(err)
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "fetch.wasm")
	build := exec.Command("go", "build", "-o", program, "./testdata/fetch")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	model, err := os.ReadFile("../../testdata/safetensors/minilm-slice.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, model)
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(address string, key ...string) {
		t.Helper()
		run := exec.Command(node, filepath.Join(strings.TrimSpace(string(goroot)), "lib/wasm/wasm_exec_node.js"), program,
			address, "embeddings.LayerNorm.bias")
		run.Args = append(run.Args, key...)
		run.Args[0] = "browser" // net/http does without fetch in what is called node
		out, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got, want := strings.TrimSpace(string(out)), "F32 [384] [0.16954054 0.11112433 0.0064446456]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	fetch(s.URL + "/dir/model.bin")
	if sent := s.sent.Load(); sent > 8<<10 || s.requests.Load() != 2 {
		t.Errorf("%d bytes of %d by %d requests", sent, len(model), s.requests.Load())
	}
	// A key goes to the address's own server.
	var leaked atomic.Int64
	elsewhere := serve(t, model)
	elsewhere.fault = func(_ int64, _ http.ResponseWriter, req *http.Request) bool {
		if req.Header.Get("X-Api-Key") != "" {
			leaked.Add(1)
		}
		return false
	}
	home := record(t, func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, elsewhere.URL, http.StatusFound) })
	fetch(home.URL, "hush")
	if seen := home.take(); len(seen) != 1 || seen[0].Header.Get("X-Api-Key") != "hush" || leaked.Load() > 0 {
		t.Errorf("%d requests, %d of which take the key elsewhere", len(seen), leaked.Load())
	}
}
