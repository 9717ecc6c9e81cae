package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
	"github.com/tensormap/tensormap/remote/blob"
	gcblob "gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"
)

// buckets returns one of each driver that needs no server.
func buckets(t *testing.T) map[string]*gcblob.Bucket {
	t.Helper()
	files, err := fileblob.OpenBucket(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*gcblob.Bucket{"mem": memblob.OpenBucket(nil), "file": files}
	for _, b := range all {
		t.Cleanup(func() { b.Close() })
	}
	return all
}

func content(name string, seed byte) (file, data []byte) {
	data = bytes.Repeat([]byte{seed, 1, 2, 3}, 1<<18)
	return modeltest.SafeTensors(modeltest.Tensor{Name: name, DType: layout.U8, Shape: []int{len(data)}, Data: data}), data
}

func put(t *testing.T, b *gcblob.Bucket, key string, content []byte) {
	t.Helper()
	if err := b.WriteAll(context.Background(), key, content, nil); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, m *loader.Model, name string, data []byte) {
	t.Helper()
	tensor, err := m.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tensor.Bytes(); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%s has other bytes: %v", name, err)
	}
}

// A folder of a bucket is a model in shards; what has come is found again, and pull fetches the rest.
func TestFolder(t *testing.T) {
	for driver, b := range buckets(t) {
		t.Run(driver, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			one, first := content("a", 1)
			two, second := content("b", 2)
			put(t, b, "people/llama/model-00001-of-00002.safetensors", one)
			put(t, b, "people/llama/model-00002-of-00002.safetensors", two)
			put(t, b, "people/llama/model.safetensors.index.json",
				[]byte(`{"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}`))
			put(t, b, `people/llama/not\a name`, []byte("in the way"))
			s := blob.New(b, driver+"://models")
			for _, key := range []string{"people/llama", "people/llama/", "people/llama/model.safetensors.index.json"} {
				m, err := remote.OpenStore(t.Context(), s, key, nil)
				modeltest.Opened(t, m, err)
				want(t, m, "a", first)
				want(t, m, "b", second)
			}
			pulled, err := remote.PullStore(t.Context(), s, "people/llama", nil)
			if err != nil {
				t.Fatal(err)
			}
			m, err := loader.Open(pulled.Path, nil)
			modeltest.Opened(t, m, err)
			want(t, m, "b", second)
			for _, key := range []string{"people/none", "none.gguf", "people"} {
				if _, err := remote.OpenStore(t.Context(), s, key, nil); err == nil || key != "people" && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v", key, err)
				}
			}
		})
	}
}

// endlessBucket lists objects without end.
type endlessBucket struct{ driver.Bucket }

func (endlessBucket) ListPaged(_ context.Context, opts *driver.ListOptions) (*driver.ListPage, error) {
	page := &driver.ListPage{NextPageToken: []byte("more")}
	for range 1000 {
		page.Objects = append(page.Objects, &driver.ListObject{Key: opts.Prefix + "x.safetensors", AsFunc: func(any) bool { return false }})
	}
	return page, nil
}

func (endlessBucket) Close() error { return nil }

// A listing without end is an error.
func TestEndlessListing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	b := gcblob.NewBucket(endlessBucket{})
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // or else it takes all memory
	defer cancel()
	if _, err := remote.OpenStore(ctx, blob.New(b, "any://models"), "model/", nil); !errors.Is(err, httprange.ErrResponse) {
		t.Error(err)
	}
}

// drippingBucket has an object whose bytes come one by one.
type drippingBucket struct{ endlessBucket }

func (drippingBucket) NewRangeReader(ctx context.Context, _ string, _, _ int64, _ *driver.ReaderOptions) (driver.Reader, error) {
	return drips{ctx}, nil
}

func (drippingBucket) ErrorCode(error) gcerrors.ErrorCode { return gcerrors.Unknown }

type drips struct{ ctx context.Context }

func (d drips) Read(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return copy(p, "x"), d.ctx.Err()
}

func (drips) Attributes() *driver.ReaderAttributes { return &driver.ReaderAttributes{Size: 1 << 20} }
func (drips) As(any) bool                          { return false }
func (drips) Close() error                         { return nil }

// A server that drips is as good as silent.
func TestDrips(t *testing.T) {
	b := gcblob.NewBucket(drippingBucket{})
	defer b.Close()
	s := blob.New(b, "any://models")
	s.Timeout = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	source, err := s.Connect(ctx, "x", remote.StoredObject{Size: 1 << 20})
	if err == nil {
		err = source.ReadAt(ctx, make([]byte, 1<<20), 0)
	}
	if !errors.Is(err, httprange.ErrStalled) {
		t.Error(err)
	}
}

// A changed object is an error for what is open, and another one for the next.
func TestChanged(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	b, err := fileblob.OpenBucket(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	old, _ := content("a", 1)
	fresh, data := content("a", 9)
	put(t, b, "model.safetensors", old)
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "model.safetensors"), past, past); err != nil {
		t.Fatal(err)
	}
	s := blob.New(b, "file://models")
	m, err := remote.OpenStore(t.Context(), s, "model.safetensors", nil)
	modeltest.Opened(t, m, err)
	put(t, b, "model.safetensors", fresh)
	tensor, err := m.Tensor("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tensor.Bytes(); !errors.Is(err, httprange.ErrChanged) {
		t.Error(err)
	}
	again, err := remote.OpenStore(t.Context(), s, "model.safetensors", nil)
	modeltest.Opened(t, again, err)
	want(t, again, "a", data)
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{"", "models", "gs://", "none://bucket/key", "mem://a@b/c"} {
		if _, err := blob.Open(t.Context(), address, nil); err == nil {
			t.Errorf("%s opens", address)
		}
	}
	if _, err := blob.Open(t.Context(), fmt.Sprint("mem://", "models/x"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
