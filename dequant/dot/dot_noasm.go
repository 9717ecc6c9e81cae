//go:build purego || !(amd64 || arm64)

package dot

func archLevels() []*impl { return nil }
