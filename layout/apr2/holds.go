package apr2

import "github.com/tensormap/tensormap/layout"

// Holds reports whether the format has an id for d.
func Holds(d layout.DType) bool {
	_, ok := idOf[d]
	return ok
}

// MaxDims is the most dimensions that a tensor can have.
const MaxDims = maxDims
