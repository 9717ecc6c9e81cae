package tsm

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// format is what all tests of the package decode: the fixtures are of TenniS, or of the script
// that assembled them.
var format = layouttest.Format[*File]{
	ID: layout.TSM, Decode: Decode, Dir: "../../testdata/tsm", Ext: ".tsm", Least: 40, Promises: checkPromises,
}

func TestWitness(t *testing.T) { format.Witness(t, nil) }

// TestWitnessDTypes makes sure that the fixtures hold every type there is.
func TestWitnessDTypes(t *testing.T) {
	seen := map[layout.DType]bool{}
	for _, x := range format.MustDecode(t, format.Read(t, "types")).Index().Tensors {
		seen[x.DType] = true
	}
	for id, d := range dtypes {
		if !seen[d] && id != ptr {
			t.Errorf("no tensor of type %d, %v", id, d)
		}
	}
}
