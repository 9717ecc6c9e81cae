package manifest

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// TestStages: what comes after a stage that fails is not run. Here it would allocate and go
// through a map that may be large.
func TestStages(t *testing.T) {
	for _, doc := range []string{
		`{"shards":[],"shard_count":0,"tensor_shard_map":{"x":0},"metadata":{},"apr_version":"2.0.0"}`,
		`{"shards":[{"file":"a","size":1}],"shard_count":2,"tensor_shard_map":{"x":0},"metadata":{},"apr_version":"2.0.0"}`,
		`{"weight_map":{},"metadata":{"total_size":1}}`,
	} {
		m := &File{text: doc, lim: (*layout.Limits)(nil).WithDefaults()}
		object, err := jsontext.Parse(doc, layout.Manifest, 0, "manifest", m.lim)
		if err != nil {
			t.Fatal(err)
		}
		if m.readObject(object) == nil {
			t.Errorf("%s: no error", doc)
		}
		if m.hasMetadata || m.total != "" {
			t.Errorf("%s: read on: %+v", doc, m)
		}
	}
}
