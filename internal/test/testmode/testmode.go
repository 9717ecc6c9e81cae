// Package testmode tells tests how they were built, what they need not do there, and what heap a call takes.
package testmode

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// ChecksPointers reports whether the test was built with -gcflags=-d=checkptr. Conversions of pointers
// allocate then.
func ChecksPointers() bool { return builtWith("-gcflags", "checkptr") }

// Races reports whether the test was built with -race. Pools forget then.
func Races() bool { return builtWith("-race", "true") }

// Brief reports whether a test leaves out what repeats a check with other types or sizes: with -short, and under the
// race detector, which takes ten times as long and sees no other goroutines in it. The plain tests leave out nothing.
func Brief() bool { return testing.Short() || Races() }

// Sequential skips a test of one goroutine under the race detector, where it costs much and finds nothing. It runs in
// all other builds, also in that which checks every pointer conversion.
func Sequential(t testing.TB) {
	t.Helper()
	if Races() {
		t.Skip("there is but one goroutine")
	}
}

// ChangesMapped skips a test that truncates, overwrites or replaces a mapped file: Windows refuses it.
func ChangesMapped(t testing.TB) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be changed")
	}
}

// Symlinks skips a test where there are no symbolic links: Windows makes them for few users, and Wine says that it has
// made one.
func Symlinks(t testing.TB) {
	t.Helper()
	link := filepath.Join(t.TempDir(), "link")
	err := os.Symlink("nowhere", link)
	if err == nil {
		_, err = os.Readlink(link)
	}
	if err != nil {
		t.Skip("no symbolic links:", err)
	}
}

// Allocated returns how many bytes of heap f takes, also bytes that it frees again.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// builtWith reports whether a setting of the build contains value.
func builtWith(flag, value string) bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == flag && strings.Contains(s.Value, value)
	})
}
