package bw2l_test

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/bw2l"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// format is what all tests of the package decode: the writers of the fixtures, or libw2l's
// reader, have said what is in them.
var format = layouttest.Format[*bw2l.File]{
	ID: layout.BW2L, Decode: bw2l.Decode, Dir: "../../testdata/bw2l", Ext: ".b2l", Least: 20, Promises: checkPromises,
}

func TestWitness(t *testing.T) { format.Witness(t, nil) }

// checkPromises: a file fails its audit where its metadata cannot be read, and only there;
// every tensor has a shape, a scale only if its elements are integers; and all lies in the
// order of the file.
func checkPromises(t testing.TB, f *bw2l.File, data layout.Bytes, got *layouttest.Answers) {
	t.Helper()
	if got.Failed() != (got.MetadataErr != nil) || got.Checksums != nil {
		t.Errorf("findings %v, checksums %v, but metadata: %v", got.Findings, got.Checksums, got.MetadataErr)
	}
	end := uint64(4 + 1 + 1 + 8) // where the first section is, if the file has an empty name
	for i, x := range f.Index().Tensors {
		if x.Encoding != layout.Raw || len(x.Shape) == 0 || x.Alias {
			t.Errorf("tensor %d: %+v", i, x)
		}
		if x.Quant != nil && (x.Quant.Scale == 0 || x.Quant.Scale != x.Quant.Scale || x.DType.Kind() != layout.KindInt) {
			t.Errorf("tensor %d: %+v", i, x)
		}
		if x.Offset < end {
			t.Errorf("tensor %d is at %d, behind what ends at %d", i, x.Offset, end)
		}
		end = x.Offset + x.Stored
	}
}
