//go:build !purego && (amd64 || arm64)

package dot

// assembly returns a kernel that calls f with the address of the first group's first code.
func assembly(f func(dst []float32, rows []byte, x *int8, blocks int)) quantizedKernel {
	return func(dst []float32, rows []byte, x []group, blocks int) { f(dst, rows, &x[0].codes[0], blocks) }
}

// whole returns a kernel of NVFP4 that calls f for rows of whole groups, and the portable loop for other rows. The last
// parameter of f is the number of groups in a row, at least one, although f calls it blocks.
func whole(f func(dst []float32, rows []byte, x *int8, blocks int)) quantizedKernel {
	return func(dst []float32, rows []byte, x []group, blocks int) {
		if blocks%4 == 0 { // four blocks of 64 elements fill a group
			f(dst, rows, &x[0].codes[0], blocks/4)
		} else {
			nvfp4Generic(dst, rows, x, blocks)
		}
	}
}
