//go:build purego || !amd64

package lz4block

const hasAVX2 = false

func decodeAVX2(dst, src []byte) bool { panic("no AVX2") }
