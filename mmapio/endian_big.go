//go:build mips || mips64 || ppc64 || s390x

package mmapio

const littleEndian = false
