//go:build purego || !amd64

package lz4block

const hasAVX2 = false

// decodeAVX2 panics: it is never called here.
func decodeAVX2(dst, src []byte) bool { panic("no AVX2") }
