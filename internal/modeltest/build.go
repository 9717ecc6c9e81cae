package modeltest

import (
	"runtime/debug"
	"slices"
	"strings"
)

// ChecksPointers reports whether the test was built with -gcflags=-d=checkptr. Conversions of pointers
// allocate then.
func ChecksPointers() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "-gcflags" && strings.Contains(s.Value, "checkptr")
	})
}
