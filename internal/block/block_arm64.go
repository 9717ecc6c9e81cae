//go:build !purego

package block

// NEONBits turns 32 bits into 32 bytes: the indices of two table lookups that repeat each of four bytes eight
// times, then the bit to test in each byte.
var NEONBits = func() (t [48]uint8) {
	for i := range 32 {
		t[i] = uint8(i / 8)
	}
	for i := range 16 {
		t[32+i] = 1 << (i % 8)
	}
	return t
}()
