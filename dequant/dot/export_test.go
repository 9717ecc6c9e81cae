package dot

import "github.com/tensormap/tensormap/layout"

// Prepare returns the activation of x for rows of type d.
func Prepare(d layout.DType, x []float32) (*Activation, error) {
	a := new(Activation)
	return a, a.Set(d, x)
}

// Rows sets dst to the products of rows, of type d, with a.
func Rows(dst []float32, d layout.DType, rows []byte, a *Activation) error {
	return Mat([][]float32{dst}, d, rows, []*Activation{a})
}
