package apr2

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// format64 has the fixtures of aprender's, of which those that are APR2 have the 64-byte
// header.
var format64 = layouttest.Format[layout.File]{
	ID: layout.APR2, Decode: Decode, Dir: "../../testdata/aprender", Ext: ".apr", Least: 20, Promises: checkPromises,
}

func fixture64(t testing.TB, name string) layout.Bytes { return format64.Read(t, name) }

func TestWitness64(t *testing.T) {
	format64.Witness(t, func(t *testing.T, file layout.File, data layout.Bytes, _ string) {
		f, ok := file.(*File64)
		if !ok {
			t.Fatalf("a %T", file)
		}
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

// TestSniff64: also what is refused then is known to be APR2.
func TestSniff64(t *testing.T) {
	for _, x := range format64.Fixtures(t) {
		if f, err := layout.Sniff(x.Data); f != layout.APR2 {
			t.Errorf("%s: %v, %v", x.Name, f, err)
		}
	}
}
