//go:build purego || !(amd64 || arm64)

package dot

// archLevels returns nil: without assembly there is the portable level only.
func archLevels() []*impl { return nil }
