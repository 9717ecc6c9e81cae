//go:build purego || !(amd64 || arm64)

package narrow

// archLevels returns no levels: there are no kernels here.
func archLevels() []level { return nil }
