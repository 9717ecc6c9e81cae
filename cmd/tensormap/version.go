package main

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// version describes the build: module version, commit, Go, platform.
func version() string {
	unknown := &debug.BuildInfo{GoVersion: runtime.Version(), Main: debug.Module{Version: "(unknown)"}}
	info, _ := debug.ReadBuildInfo()
	return buildText(cmp.Or(info, unknown))
}

// buildText returns what version has of a build.
func buildText(info *debug.BuildInfo) string {
	parts := []string{cmp.Or(info.Main.Version, "(devel)")}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			parts = append(parts, "commit "+s.Value)
		}
	}
	parts = append(parts, info.GoVersion, runtime.GOOS+"/"+runtime.GOARCH)
	return strings.Join(parts, " ")
}
