//go:build purego || !amd64

package quantize

func archLevels() []*impl { return nil }
