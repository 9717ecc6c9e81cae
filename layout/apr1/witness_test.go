package apr1

import (
	"math/big"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// format is what all tests of the package decode. What is said of the fixtures has the program
// that wrote them said, or its reader.
var format = layouttest.Format[*File]{
	ID: layout.APR1, Decode: Decode, Dir: "../../testdata/apr1", Ext: ".apr", Least: 50,
	Normal: binary32, Promises: checkPromises,
}

// binary32 takes the filterbank for the numbers that its decimals stand for: programs write
// these in different ways.
func binary32(metadata any) {
	values, _ := metadata.(map[string]any)["mel_filterbank"].([]any)
	for i, v := range values {
		if x, ok := v.(*big.Rat); ok {
			values[i], _ = x.Float32()
		}
	}
}

func TestWitness(t *testing.T) {
	format.Witness(t, func(t *testing.T, f *File, data layout.Bytes, _ string) {
		sums, err := f.Checksums(data)
		end := data.Size() - 4
		if err != nil || len(sums) != 1 || sums[0] != (layout.Checksum{Field: "crc32", At: end, Size: end, Want: le.Uint32(data[end:])}) {
			t.Errorf("%+v, %v", sums, err)
		}
	})
}
