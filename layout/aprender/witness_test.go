package aprender

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// format has the fixtures of aprender's, of which those that are APR2 have the 64-byte
// header.
var format = layouttest.Format[*File]{
	ID: layout.APR2, Decode: Decode, Dir: "../../testdata/aprender", Ext: ".apr", Least: 20, Promises: checkPromises,
}

func TestWitness(t *testing.T) {
	format.Witness(t, func(t *testing.T, f *File, data layout.Bytes, _ string) {
		sums, err := f.Checksums(data)
		if err != nil {
			t.Fatal(err)
		}
		end := data.Size() - 4
		for _, s := range sums {
			if s.Field != "crc32" || s.At != end || s.Offset != 0 || s.Size != end {
				t.Errorf("checksum %+v", s)
			}
		}
	})
}

// TestMatches: also what is refused then is known to be aprender's.
func TestMatches(t *testing.T) {
	for _, x := range format.Fixtures(t) {
		if !Format.Matches(x.Data, x.Data[:min(len(x.Data), layout.HeadBytes)]) {
			t.Errorf("%s: not recognised", x.Name)
		}
	}
}
