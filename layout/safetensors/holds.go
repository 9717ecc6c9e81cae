package safetensors

import "github.com/tensormap/tensormap/layout"

// Holds reports whether the format has a name for d.
func Holds(d layout.DType) bool { return d.Valid() && dtypeNamed([]byte(d.String())) == d }
