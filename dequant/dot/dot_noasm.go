//go:build purego || !amd64

package dot

func archLevels() []*impl { return nil }
