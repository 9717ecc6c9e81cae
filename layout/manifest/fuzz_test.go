package manifest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
)

// FuzzDecode: whatever the bytes, a manifest or an error with a place in them; and names that
// stay in the directory.
func FuzzDecode(f *testing.F) {
	for _, path := range fixtures(f) {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"shard_count":2,"shards":[{"file":"a","size":1,"crc32":"x"},{"file":"b","size":2}],"tensor_shard_map":{"x":0,"y":1}}`))
	f.Add([]byte(`{"weight_map":{"x":"a","y":"b"},"metadata":{"total_size":9}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		doc := layout.Bytes(b)
		m, err := manifest.Decode(doc, nil)
		if err != nil {
			checkPlace(t, doc, err)
			return
		}
		if len(m.Shards) == 0 || len(m.Shards) > len(b) {
			t.Fatalf("%d shards", len(m.Shards))
		}
		for i, s := range m.Shards {
			if filepath.Base(s.Name) != s.Name || strings.ContainsAny(s.Name, "/\\\x00") || s.Name == ".." || s.Name == "." {
				t.Errorf("shard %d is %q", i, s.Name)
			}
			checkPlace(t, doc, m.UnusableError(i, layout.ErrClosed))
			if err := m.CheckSize(i, s.Size+1); err != nil {
				checkPlace(t, doc, err)
			}
		}
		if _, err := m.Describe(nil); err != nil {
			t.Error(err)
		}
		for _, s := range m.ShardChecksums() {
			if s.Shard >= len(m.Shards) || s.At >= uint64(len(b)) || b[s.At] != '"' {
				t.Errorf("%+v", s)
			}
		}
		if err := m.CheckTensors(tensors([]string{"x", "y"})); err != nil {
			checkPlace(t, doc, err)
		}
		for _, f := range m.Audit(doc) {
			checkPlace(t, doc, f.FormatError)
		}
	})
}

func checkPlace(t *testing.T, doc layout.Bytes, err error) {
	t.Helper()
	var fe *layout.FormatError
	if !errors.As(err, &fe) || fe.Format != layout.Manifest || fe.Field == "" || fe.Err == nil || fe.Offset > uint64(len(doc)) {
		t.Errorf("%+v of %q", err, doc)
	}
}
