package atomicfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	maxBase   = 100 // bytes of the name to come that a temporary name repeats
	hexDigits = 8   // at the end of a temporary name
)

// shardNumber tells the names of a model's shards apart.
var shardNumber = regexp.MustCompile(`-[0-9]{5}-of-[0-9]{5}\b`)

// temporaryPrefix returns how the temporary names of target begin. All shards of a model share
// it, so that whoever writes the model again finds what is left of them, however many they were.
func temporaryPrefix(target string) string {
	dir, base := filepath.Split(target)
	base = shardNumber.ReplaceAllString(base, "")
	return fmt.Sprintf("%s.%s.tmp-", dir, strings.ToValidUTF8(base[:min(len(base), maxBase)], ""))
}

func temporaryName(target string) string {
	return fmt.Sprintf("%s%0*x", temporaryPrefix(target), hexDigits, rand.Uint32())
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

// sweep removes the temporary files of target whose writers are no more. A full disk, on
// which nothing can be locked, is no obstacle: nobody else has a lock on it then.
func (r *registry) sweep(target string) {
	prefix := temporaryPrefix(target)
	for name := range r.names {
		if strings.HasPrefix(name, prefix) {
			return // it was swept when the first of these was created
		}
	}
	var lock *os.File
	for _, name := range temporariesOf(prefix) {
		if lock == nil {
			var err error
			if lock, err = r.tryLock(dirOf(target)); err != nil && !errors.Is(err, errFull) {
				return // old files that another has set aside look stale
			}
		}
		removeStale(name)
	}
	r.unlock(lock)
}
