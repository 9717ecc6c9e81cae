//go:build !unix

package trust

import "io/fs"

// ownedByRoot reports false: the system has no such owner.
func ownedByRoot(fs.FileInfo) bool { return false }
