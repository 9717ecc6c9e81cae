package main

import (
	"encoding/binary"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/x448/float16"
)

// A peer does one type's work in one direction: it expands blocks to floats, or makes them
// from floats, passes times over.
type peer struct {
	d    layout.DType
	name string
	run  func(floats []float32, blocks []byte, passes int)
}

// oursExpanding and the like are the functions under test. An error is a defect of this command.

func oursExpanding(d layout.DType) peer {
	return ours(d, func(floats []float32, blocks []byte) error { return dequant.Expand(d, floats, blocks) })
}

func oursExpandingParallel(d layout.DType) peer {
	return ours(d, func(floats []float32, blocks []byte) error { return dequant.ExpandParallel(d, floats, blocks) })
}

func oursQuantizing(d layout.DType) peer {
	return ours(d, func(floats []float32, blocks []byte) error { return dequant.Quantize(d, blocks, floats) })
}

func oursQuantizingParallel(d layout.DType) peer {
	return ours(d, func(floats []float32, blocks []byte) error { return dequant.QuantizeParallel(d, blocks, floats) })
}

func ours(d layout.DType, f func([]float32, []byte) error) peer {
	return peer{d, "dequant", func(floats []float32, blocks []byte, passes int) {
		for range passes {
			if err := f(floats, blocks); err != nil {
				panic(err)
			}
		}
	}}
}

var float16Expander = peer{layout.F16, "x448/float16", func(floats []float32, blocks []byte, passes int) {
	for range passes {
		for i := range floats {
			floats[i] = float16.Frombits(binary.LittleEndian.Uint16(blocks[2*i:])).Float32()
		}
	}
}}

var float16Quantizer = peer{layout.F16, "x448/float16", func(floats []float32, blocks []byte, passes int) {
	for range passes {
		for i, f := range floats {
			binary.LittleEndian.PutUint16(blocks[2*i:], float16.Fromfloat32(f).Bits())
		}
	}
}}
