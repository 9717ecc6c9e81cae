//go:build purego || !amd64

package moments

// archLevels returns no levels: there are no kernels here.
func archLevels() []level { return nil }
