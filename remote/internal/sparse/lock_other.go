//go:build !linux

package sparse

import (
	"context"
	"os"
)

// lockRange locks nothing: the system has no locks of ranges that end with the process.
func lockRange(context.Context, *os.File, int64, int64) (unlock func(), err error) {
	return func() {}, nil
}
