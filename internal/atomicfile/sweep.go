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

// temporaryPrefix returns how the temporary names beside target begin. They repeat the name of the set that target
// belongs to, or without one its own name.
func temporaryPrefix(target, set string) string {
	dir, base := filepath.Split(target)
	base = cmp.Or(set, base)
	return fmt.Sprintf("%s.%s.tmp-", dir, strings.ToValidUTF8(base[:min(len(base), maxBase)], ""))
}

// temporariesOf lists the files whose names begin with prefix as temporary ones do.
func temporariesOf(prefix string) (names []string) {
	dir, base := filepath.Split(prefix)
	d, err := os.Open(orDot(dir))
	if err != nil {
		return nil
	}
	defer d.Close()
	all, _ := d.Readdirnames(-1)
	for _, name := range all {
		if digits, ok := strings.CutPrefix(name, base); ok && len(digits) == hexDigits && strings.Trim(digits, "0123456789abcdef") == "" {
			names = append(names, dir+name)
		}
	}
	return names
}

// sweep removes the temporary files with a prefix whose writers have ended. A full disk, on
// which nothing can be locked, is no obstacle: nobody else has a lock on it then.
func (r *registry) sweep(prefix string) {
	for name := range r.names {
		if strings.HasPrefix(name, prefix) {
			return // it was swept when the first file with this prefix was created
		}
	}
	var lock *os.File
	for _, name := range temporariesOf(prefix) {
		if lock == nil {
			var err error
			if lock, err = r.tryLock(dirOf(prefix)); err != nil && !errors.Is(err, errFull) {
				return // it may be renaming old files to temporary names, which look stale
			}
		}
		removeStale(name)
	}
	r.unlock(lock)
}
