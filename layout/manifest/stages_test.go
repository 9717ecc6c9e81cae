package manifest

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// TestStages: what comes after a stage that fails is not run. Here it would allocate and go
// through a map that may be large.
func TestStages(t *testing.T) {
	for _, doc := range []string{
		`{"shards":[],"shard_count":0,"tensor_shard_map":{"x":0},"metadata":{},"apr_version":"2.0.0"}`,
		`{"shards":[{"file":"a","size":1}],"shard_count":2,"tensor_shard_map":{"x":0},"metadata":{},"apr_version":"2.0.0"}`,
		`{"weight_map":{},"metadata":{"total_size":1}}`,
	} {
		d := decoder{text: []byte(doc), lim: (*layout.Limits)(nil).WithDefaults(), m: new(File)}
		if err := d.decode(); err == nil {
			t.Errorf("%s: no error", doc)
		}
		if m := d.m; m.metadata != nil || m.total != "" {
			t.Errorf("%s: read on: %+v", doc, m)
		}
	}
}
