package loader

import (
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/shard"
)

// decode names the format of the bytes and reads its index.
func decode(in layout.Input, lim *layout.Limits) (layout.File, error) {
	if format, err := formats.Sniff(in); err == nil && format == layout.Manifest {
		return layout.AsDecoder(shard.Decode)(in, lim)
	}
	return formats.Decode(in, lim)
}
