package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	maxBase   = 100 // bytes of the set's or the file's name that a temporary name repeats
	hexDigits = 8   // at the end of a temporary name
)

// temporaryPrefix returns the beginning of temporary names in the directory of target, such as "dir/.model.apr.tmp-". It has the name of
// the set that target belongs to, or without one target's own name.
func temporaryPrefix(target, set string) string {
	dir, base := filepath.Split(target)
	base = cmp.Or(set, base)
	return fmt.Sprintf("%s.%s.tmp-", dir, strings.ToValidUTF8(base[:min(len(base), maxBase)], ""))
}

// temporariesOf returns the paths of the files with temporary names that begin with prefix. It returns none if the directory cannot be
// read.
func temporariesOf(prefix string) (names []string) {
	dir, base := filepath.Split(prefix)
	entries, _ := os.ReadDir(cmp.Or(dir, "."))
	for _, e := range entries {
		name := e.Name()
		if digits, ok := strings.CutPrefix(name, base); ok && len(digits) == hexDigits && strings.Trim(digits, "0123456789abcdef") == "" {
			names = append(names, dir+name)
		}
	}
	return names
}

// removeStaleTemporaries removes the temporary files with a prefix whose writers have ended. The caller has locked temporaries. On a
// full disk, on which no lock can be made, it removes them without: no other process has a lock then either.
func removeStaleTemporaries(prefix string) {
	for name := range temporaries.names {
		if strings.HasPrefix(name, prefix) {
			return // it was swept when the first file with this prefix was created
		}
	}
	var lock *os.File
	for _, name := range temporariesOf(prefix) {
		if lock == nil {
			var err error
			if lock, err = tryLockDir(dirOf(prefix)); err != nil && !errors.Is(err, errFull) {
				return // it may be renaming old files to temporary names, which look stale
			}
		}
		removeStale(name)
	}
	unlockDir(lock)
}
