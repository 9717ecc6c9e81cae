package manifest_test

import (
	"bufio"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
)

// TestEncode decodes what has been encoded.
func TestEncode(t *testing.T) {
	shards := []manifest.Shard{{Name: `"a" <b>`, Size: 7, Sized: true, CRC32: "cbf43926"}, {Name: "重", Sized: true, CRC32: "cbf43926"}}
	places := []manifest.Place{{Tensor: "x\n", Shard: 1}, {Tensor: "a", Shard: 0}}
	md := layout.Metadata{{Key: "k", Value: "v"}}
	m := modeltest.DecodeManifest(t, string(modeltest.EncodeManifest(t, shards, places, md)))
	if got, err := m.Metadata(nil); err != nil || !reflect.DeepEqual(m.Shards, shards) || m.CheckTensors(tensors([]string{"a"}, []string{"x\n"})) != nil || len(m.Audit(nil)) > 0 || !reflect.DeepEqual(got, md) {
		t.Errorf("%+v, %v", m, err)
	}
	text, err := manifest.EncodeIndex(shards, places, md, 12)
	if err != nil {
		t.Fatal(err)
	}
	m = modeltest.DecodeManifest(t, string(text))
	checked, err := m.Metadata(nil)
	if total, _ := checked.Get("total_size"); err != nil || len(m.Shards) != 2 || m.Shards[1].Name != "重" || m.CheckTensors(tensors([]string{"a"}, []string{"x\n"})) != nil || len(checked) != 2 || total == nil || len(md) != 1 {
		t.Errorf("%+v, %v, %v of\n%s", m, checked, err, text)
	}
	for _, err := range []error{
		manifest.WriteAPR2(bufio.NewWriter(io.Discard), nil, slices.Values([]manifest.Place{}), layout.Metadata{{Key: "k", Value: func() {}}}),
		func() error {
			_, err := manifest.EncodeIndex(nil, nil, layout.Metadata{{Key: "k", Value: func() {}}}, 0)
			return err
		}(),
	} {
		if err == nil {
			t.Error("metadata that is no JSON")
		}
	}
}
