package april

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// format is what all tests of the package decode. What gen_april.py, which wrote the fixtures,
// says of them it has from the Python package onnx.
var format = layouttest.Format[*File]{
	ID: layout.April, Decode: Decode, Dir: "../../testdata/april", Ext: ".april", Least: 16, Promises: checkPromises,
}

func TestWitness(t *testing.T) { format.Witness(t, nil) }
