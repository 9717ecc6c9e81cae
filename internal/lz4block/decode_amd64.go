//go:build !purego

package lz4block

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2
