//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package remote_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
)

// TestPlantedPipes: a pipe that somebody has planted in place of a file of a cache, and that nobody ever writes to, keeps nobody
// waiting.
func TestPlantedPipes(t *testing.T) {
	model := modeltest.SafeTensors(modeltest.Tensor{Name: "b", DType: layout.U8, Shape: []int{1000}, Data: make([]byte, 1000)})
	for kind, start := range map[string]func() (address string){
		"hub": func() string {
			hubtest.New(t, map[string][]byte{"model.safetensors": model})
			return "hf://org/model"
		},
		"registry": func() string { return newRegistry(t, layer{weightLayer, "model.safetensors", model}).address("oci") },
		"ollama":   func() string { return newRegistry(t, layer{tensorLayer, "b", model}).address("ollama") },
		"web": func() string {
			return newSite(t, map[string][]byte{"/model.safetensors": model}).URL + "/model.safetensors"
		},
	} {
		t.Run(kind, func(t *testing.T) {
			address := start()
			c := newCaches(t)
			files := map[string]bool{}
			if err := openAndPull(t.Context(), address, func() {
				c.each(func(path string, e fs.DirEntry) {
					if !e.IsDir() {
						files[path] = true
					}
				})
			}); err != nil {
				t.Fatal(err)
			}
			for path := range files {
				c.empty(t)
				if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := syscall.Mkfifo(path, 0o666); err != nil {
					t.Skip(err)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					openAndPull(ctx, address, func() {})
				}()
				select {
				case <-done:
				case <-time.After(time.Minute):
					t.Fatalf("%s: a pipe is waited for", path)
				}
			}
		})
	}
}
