//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package remote

import (
	"context"
	"path/filepath"

	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// sameFileSystem reports whether both folders are on the same volume.
func sameFileSystem(a, b string) bool { return filepath.VolumeName(a) == filepath.VolumeName(b) }

// lockFile locks nothing and never fails.
func lockFile(context.Context, rooted.Path) (unlock func(), err error) { return func() {}, nil }
