package sparse

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// openVersion opens a File whose source has a version, and content of its own. *version may change.
func openVersion(t *testing.T, path rooted.Path, version *string) (*File, *origin) {
	t.Helper()
	o := newOrigin(4 * ChunkBytes)
	for i := range o.content {
		o.content[i] = (*version)[len(*version)-1]
	}
	f, err := Open(path, Options{Size: int64(len(o.content)), Identity: "one", Name: "a name", Fetch: o.fetch, Version: func() string { return *version }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, o
}

func chunkOf(f *File, i int64) (byte, error) {
	b := make([]byte, ChunkBytes)
	err := f.ReadAt(context.Background(), b, i*ChunkBytes)
	return b[0], err
}

// TestVersionOfAll: whoever has a file open has bytes of one version, or an error. Nothing is shared but the disk.
func TestVersionOfAll(t *testing.T) {
	path := at(t.TempDir(), "x")
	one, two := "v1", "v2"
	a, _ := openVersion(t, path, &one)
	b, _ := openVersion(t, path, &two) // both before there are any bytes
	if v, err := chunkOf(a, 2); v != '1' || err != nil {
		t.Errorf("%c, %v", v, err)
	}
	if _, err := chunkOf(b, 3); !errors.Is(err, mmapio.ErrChanged) { // and the next Open begins anew
		t.Error(err)
	}
	if v, err := chunkOf(a, 2); v != '1' || err != nil {
		t.Errorf("what is open: %c, %v", v, err)
	}
	a.Close()
	b.Close()
	c, o := openVersion(t, path, &two)
	for i := range int64(4) {
		if v, err := chunkOf(c, i); v != '2' || err != nil {
			t.Errorf("chunk %d: %c, %v", i, v, err)
		}
	}
	if o.most() != 1 {
		t.Error("chunks were fetched twice")
	}
	c.Close()
	d, o := openVersion(t, path, &two)
	if v, err := chunkOf(d, 3); v != '2' || err != nil || d.Version() != two || o.calls.Load() != 0 {
		t.Errorf("%c, %v of version %q by %d fetches", v, err, d.Version(), o.calls.Load())
	}
	if list, err := List(path.Parent()); err != nil || len(list) != 1 || list[0].Name != "a name" || list[0].Have != 4*ChunkBytes {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestVersionsAtOnce: of many who begin a file at the same time with two versions, those of one version have it.
func TestVersionsAtOnce(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system has no locks of ranges")
	}
	path := at(t.TempDir(), "x")
	versions := []string{"v1", "v2"}
	var mu sync.Mutex
	read := make(map[byte]bool)
	var all sync.WaitGroup
	var files []*File
	for i := range 16 {
		f, _ := openVersion(t, path, &versions[i%2])
		files = append(files, f)
	}
	for _, f := range files {
		all.Go(func() {
			for chunk := range int64(4) {
				if v, err := chunkOf(f, chunk); err == nil {
					mu.Lock()
					read[v] = true
					mu.Unlock()
				} else if !errors.Is(err, mmapio.ErrChanged) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if len(read) != 1 {
		t.Errorf("read %v", read)
	}
}

// TestNoVersion: bytes of no version are for the File that has fetched them.
func TestNoVersion(t *testing.T) {
	path := at(t.TempDir(), "x")
	source := ""
	none := func() string { return source }
	value := byte(1)
	fresh := func() *File {
		f, err := Open(path, Options{Size: 4 * ChunkBytes, Identity: "one", Version: none, Fetch: func(_ context.Context, p []byte, _ int64) error {
			copy(p, bytes.Repeat([]byte{value}, len(p)))
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	a := fresh()
	if v, err := chunkOf(a, 2); v != 1 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	value = 2
	if v, err := chunkOf(a, 2); v != 1 || err != nil || !a.Has(2*ChunkBytes, ChunkBytes) {
		t.Errorf("%d, %v", v, err)
	}
	a.Close()
	if v, err := chunkOf(fresh(), 2); v != 2 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
}

// TestClaimsWithoutVersion: a map whose version did not reach the disk claims nothing.
func TestClaimsWithoutVersion(t *testing.T) {
	path := at(t.TempDir(), "x")
	one, two := "v1", "v2"
	a, _ := openVersion(t, path, &one)
	chunkOf(a, 2)
	a.Close()
	for _, lost := range []int64{1, 4} { // bytes of the end
		info, err := os.Stat(MapPath(path).String())
		if err == nil {
			err = os.Truncate(MapPath(path).String(), info.Size()-lost)
		}
		if err != nil {
			t.Fatal(err)
		}
		b, _ := openVersion(t, path, &two)
		if v, err := chunkOf(b, 2); v != '2' || err != nil {
			t.Errorf("without %d bytes: %c, %v", lost, v, err)
		}
		b.Close()
	}
}
