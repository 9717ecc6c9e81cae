package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// moving is a transport of a bucket that each answer sends to another region.
type moving struct{ answers atomic.Int64 }

func (m *moving) RoundTrip(req *http.Request) (*http.Response, error) {
	region := fmt.Sprintf("r-%d", m.answers.Add(1))
	return &http.Response{StatusCode: http.StatusMovedPermanently, Body: http.NoBody, Request: req,
		Header: http.Header{"X-Amz-Bucket-Region": {region}}}, nil
}

// TestMovingBucket: requests that run at once may learn of another region. The race detector sees whether they may.
func TestMovingBucket(t *testing.T) {
	for name, value := range map[string]string{"AWS_CONFIG_FILE": t.TempDir() + "/none", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "",
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(name, value)
	}
	o := (*Options)(nil).withDefaults()
	o.HTTP.Client = &http.Client{Transport: new(moving)}
	b, err := newBucket("models", o)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := b.Stat(t.Context(), "x", StoredObject{}); err == nil {
				t.Error("an answer without a file")
			}
		})
	}
	all.Wait()
}

// TestCutList: an array that is cut off is malformed, also between two elements.
func TestCutList(t *testing.T) {
	for _, text := range []string{"[", "[1", "[1,2"} {
		if err := forEachElement[json.Number](func(json.Number) error { return nil }).UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

// twice is a Store that lists two objects without a version under one name.
type twice struct{ Store }

func (twice) Address(key string) string  { return "twice://" + key }
func (twice) Identity(key string) string { return "twice://" + key }

func (twice) List(context.Context, string) iter.Seq2[StoredObject, error] {
	return func(yield func(StoredObject, error) bool) {
		for size := range int64(2) {
			if !yield(StoredObject{Name: "model.safetensors", Size: size}, nil) {
				return
			}
		}
	}
}

// TestTwoOfOneName: of two objects that a store lists under one name neither is the model, also without versions.
func TestTwoOfOneName(t *testing.T) {
	d, err := folderInStore(t.Context(), twice{}, "", (&Options{NoCache: true, CacheDir: t.TempDir()}).withDefaults())
	if err == nil {
		t.Errorf("%v has two files of one name", d.objects)
	}
}

// TestDigestIsTheVersion: what Pull has downloaded of a server that tells no versions, and removed, is downloaded again, not read by
// ranges. Other bytes are another version.
func TestDigestIsTheVersion(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer server.Close()
	o := (&Options{CacheDir: t.TempDir()}).forPull()
	d, err := webFolder(t.Context(), server.URL+"/x", o)
	if err != nil {
		t.Fatal(err)
	}
	read := func() error {
		s, err := d.objects["x"].connect(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.ReadAt(t.Context(), make([]byte, 10), 100)
	}
	for range 2 {
		if err := errors.Join(read(), o.downloads.removeAll()); err != nil {
			t.Error(err)
		}
	}
	content = bytes.Repeat([]byte("y"), 1000)
	if err := read(); !errors.Is(err, httprange.ErrChanged) {
		t.Errorf("other bytes: %v", err)
	}
	o.downloads.removeAll()
}

// TestPartialDirFails: if this module's cache cannot be made, nothing is made in another program's.
func TestPartialDirFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	o := (&Options{CacheDir: filepath.Join(file, "cache")}).withDefaults()
	if _, err := o.partialDir(rooted.Path{Dir: dir, Name: "blobs"}); err == nil {
		t.Error("a folder in a file is made")
	}
	if _, err := os.Lstat(filepath.Join(dir, "blobs")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("blobs: %v", err)
	}
}
