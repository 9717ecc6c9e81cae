package loader

import (
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr1"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/april"
	"github.com/tensormap/tensormap/layout/bw2l"
	"github.com/tensormap/tensormap/layout/gguf"
	"github.com/tensormap/tensormap/layout/safetensors"
	"github.com/tensormap/tensormap/layout/tsm"
	"github.com/tensormap/tensormap/shard"
)

// decoders is the one place above layout that knows formats. A new format is a package
// under layout and a line here.
var decoders = map[layout.Format]layout.Decoder{
	layout.APR1:        decoder(apr1.Decode),
	layout.APR2:        decoder(apr2.Decode),
	layout.April:       decoder(april.Decode),
	layout.BW2L:        decoder(bw2l.Decode),
	layout.GGUF:        decoder(gguf.Decode),
	layout.SafeTensors: decoder(safetensors.Decode),
	layout.TSM:         decoder(tsm.Decode),
	layout.Manifest:    decoder(shard.Decode), // of which package shard makes one model
}

// decoder lets a package's Decode return its own type.
func decoder[F layout.File](decode func(layout.Input, *layout.Limits) (F, error)) layout.Decoder {
	return func(in layout.Input, lim *layout.Limits) (layout.File, error) {
		f, err := decode(in, lim)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}

// decode names the format of the bytes and reads its index.
func decode(in layout.Input, lim *layout.Limits) (layout.File, error) {
	format, err := layout.Sniff(in)
	if err != nil {
		return nil, err
	}
	d, ok := decoders[format]
	if !ok {
		return nil, layout.Errorf(format, 0, "magic", ErrUnsupported, "recognised, but nothing here reads it")
	}
	return d(in, lim)
}
