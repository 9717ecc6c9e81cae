package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// version describes the build: module version, commit, Go, platform.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Sprintf("(unknown) %s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	}
	return buildText(info)
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
