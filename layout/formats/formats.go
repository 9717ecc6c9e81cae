// Package formats lists the formats that are read, and recognises files by their bytes. A new format
// is a package of its own, a name in package layout and a line here.
package formats

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr1"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/aprender"
	"github.com/tensormap/tensormap/layout/april"
	"github.com/tensormap/tensormap/layout/bw2l"
	"github.com/tensormap/tensormap/layout/gguf"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/layout/safetensors"
	"github.com/tensormap/tensormap/layout/tsm"
)

// all lists the formats. The first match counts: aprender tells its files from the draft's, and the
// formats without a magic come last.
var all = []*layout.FileFormat{
	&aprender.Format,
	&apr2.Format,
	&apr1.Format,
	&april.Format,
	&bw2l.Format,
	&tsm.Format,
	&gguf.Format,
	&safetensors.Format,
	&manifest.Format,
}

// Decode recognises the format of a file and reads its index.
func Decode(in layout.Input, lim *layout.Limits) (layout.File, error) {
	f, err := findFormat(in)
	if err != nil {
		return nil, err
	}
	return f.Decode(in, lim)
}

// Names lists the formats of files that hold tensors, each once.
func Names() (list []layout.Format) {
	for _, f := range all {
		if f.Suffix != "" && !slices.Contains(list, f.Name) {
			list = append(list, f.Name)
		}
	}
	return list
}

// Suffix returns how the names of a format's files end, such as ".gguf".
func Suffix(name layout.Format) string {
	for _, f := range all {
		if f.Name == name {
			return f.Suffix
		}
	}
	return ""
}

// Suffixes lists how the names of model files end, each once.
func Suffixes() (list []string) {
	for _, f := range all {
		if f.Suffix != "" {
			list = append(list, f.Suffix)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
