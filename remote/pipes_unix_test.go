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
)

// TestPlantedPipes: a pipe that somebody has planted in place of a file of a cache, and that nobody ever writes to, keeps nobody
// waiting.
func TestPlantedPipes(t *testing.T) {
	for kind, start := range smallModel {
		t.Run(kind, func(t *testing.T) {
			address := start(t)
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
