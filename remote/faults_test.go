package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
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
		if err := eachJSONElement([]byte(text), func(json.Number) error { return nil }); err == nil {
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
