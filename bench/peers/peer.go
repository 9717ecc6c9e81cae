package main

import (
	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/quantize"
)

// A peer does one type's work in one direction: it expands blocks to floats, or makes them
// from floats, passes times over.
type peer struct {
	d    layout.DType
	name string
	run  func(floats []float32, blocks []byte, passes int)
}

// oursExpanding returns the peer that expands by package dequant on up to cores cores.
func oursExpanding(d layout.DType, cores int) peer {
	return ours(d, func(c dequant.Codec, floats []float32, blocks []byte) error {
		return c.Expand(floats, blocks, 0, cores)
	})
}

// oursQuantizing returns the peer that quantizes by package quantize without importance.
func oursQuantizing(d layout.DType, cores int) peer {
	return ours(d, func(c dequant.Codec, floats []float32, blocks []byte) error {
		return quantize.Encode(c, blocks, floats, nil, cores)
	})
}

// oursWeighing returns the peer that quantizes rows of weightedRow elements by their importance.
func oursWeighing(d layout.DType, cores int) peer {
	return ours(d, func(c dequant.Codec, floats []float32, blocks []byte) error {
		return quantize.Encode(c, blocks, floats, importance, cores)
	})
}

// ours returns a peer that calls f with the codec of type d.
func ours(d layout.DType, f func(dequant.Codec, []float32, []byte) error) peer {
	c, err := dequant.NewCodec(d, layout.Quant{}, false)
	check(err)
	return peer{d, "ours", func(floats []float32, blocks []byte, passes int) {
		for range passes {
			check(f(c, floats, blocks))
		}
	}}
}

// check panics: an error is a defect of this command.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
