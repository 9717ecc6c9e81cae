package convert

import (
	"path/filepath"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
)

// targets are the formats that models are written in: see CanWrite.
var targets = map[layout.Format]*target{layout.APR2: &apr2Target, layout.SafeTensors: &safeTensorsTarget, layout.GGUF: &ggufTarget}

// CanWrite reports whether models can be written in format f.
func CanWrite(f layout.Format) bool { return targets[f] != nil }

// formatOf returns the format whose suffix the path of a new file has, or Unknown.
func formatOf(path string) layout.Format {
	for f := range targets {
		if strings.EqualFold(filepath.Ext(path), formats.Suffix(f)) {
			return f
		}
	}
	return layout.Unknown
}
