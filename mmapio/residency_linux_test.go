package mmapio

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestResidentOfAnothersFile: Linux tells a stranger that all of a file is in memory.
func TestResidentOfAnothersFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	const nobody, size = 65534, 1 << 20
	for _, test := range []struct {
		mode  os.FileMode
		user  int
		known bool
	}{{0o644, 0, true}, {0o644, nobody, false}, {0o666, nobody, true}} {
		path := writeFile(t, noise(size))
		if err := os.Chmod(path, test.mode); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lazily, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		as(t, test.user, func() {
			whole, err := MapFile(f)
			if err != nil {
				t.Error(err)
				return
			}
			for _, m := range []*Mapping{whole, Lazy(path, size, func() (*os.File, error) { return lazily, nil })} {
				defer m.Close()
				if err := m.Populate(0, size); err != nil {
					t.Error(err)
				}
				n, err := m.Resident(0, size)
				if test.known && (n != size || err != nil) || !test.known && (n != 0 || !errors.Is(err, errors.ErrUnsupported)) {
					t.Errorf("user %d of a file of mode %o: %d, %v", test.user, test.mode, n, err)
				}
				if n, err := m.Resident(5, 0); n != 0 || err != nil {
					t.Errorf("of nothing: %d, %v", n, err)
				}
			}
		})
	}
}

// as runs f as a user, on a thread of its own that ends with it.
func as(t *testing.T, user int, f func()) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread()
		if user != 0 {
			keep := ^uintptr(0)
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(user), keep); errno != 0 {
				t.Error(errno)
				return
			}
		}
		f()
	})
	wg.Wait()
}

// TestResidentLeavesNothing: the kernel's answers take a mapping, which goes with the call. Address space that the runtime takes meanwhile is
// far less than half of what the calls would leave.
func TestResidentLeavesNothing(t *testing.T) {
	m := must(t)(Map(writeFile(t, noise(5000))))
	defer m.Close()
	pages := func() (n int) {
		text, err := os.ReadFile("/proc/self/statm")
		if err == nil {
			_, err = fmt.Sscan(string(text), &n)
		}
		if err != nil {
			t.Skip(err)
		}
		return n
	}
	const calls = 40_000
	before := pages()
	for range calls {
		if _, err := m.Resident(0, 5000); err != nil {
			t.Fatal(err)
		}
	}
	if after := pages(); after > before+calls/2 {
		t.Errorf("%d pages of address space, %d before", after, before)
	}
}
