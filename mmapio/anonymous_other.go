//go:build !unix

package mmapio

// anonymous returns n bytes of zeros.
func anonymous(n int) (b []byte, free func() error, err error) {
	return AlignedBytes(n), closeNothing, nil
}
