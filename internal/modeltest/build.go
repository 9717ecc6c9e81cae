package modeltest

import (
	"runtime/debug"
	"slices"
	"strings"
)

// ChecksPointers reports whether the test was built with -gcflags=-d=checkptr. Conversions of pointers
// allocate then.
func ChecksPointers() bool { return builtWith("-gcflags", "checkptr") }

// Races reports whether the test was built with -race. Pools forget then.
func Races() bool { return builtWith("-race", "true") }

func builtWith(flag, value string) bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == flag && strings.Contains(s.Value, value)
	})
}
