package dequant_test

import (
	"fmt"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

func ExampleExpand() {
	values := make([]float32, 3)
	err := dequant.Expand(layout.F16, values, []byte{0x00, 0x3c, 0x00, 0xc0, 0xff, 0x7b})
	fmt.Println(values, err)
	// Output: [1 -2 65504] <nil>
}

// A part of a tensor is expanded from the bytes that hold it, here elements 33 to 36 of Q4_0.
func ExampleCodec() {
	tensor := make([]byte, 2*18)
	copy(tensor[18:], []byte{0x00, 0x38, 8, 9, 10, 11, 12}) // the second block: a scale of 0.5, codes
	codec, err := dequant.NewCodec(layout.Q4_0, layout.Quant{}, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	off, size := codec.Span(33, 4)
	values := make([]float32, 4)
	err = codec.Expand(values, tensor[off:off+size], 33, dequant.AllCores)
	fmt.Println(off, size, values, err)
	// Output: 18 18 [0.5 1 1.5 2] <nil>
}

// Weights become int8s with the scale that their largest magnitude wants.
func ExampleCodec_Quantize() {
	weights := []float32{-1.27, 0.5, 1}
	var most dequant.I8Scale
	most.Add(weights)
	scale, err := most.Scale()
	if err != nil {
		fmt.Println(err)
		return
	}
	codec, err := dequant.NewCodec(layout.I8, layout.Quant{Scale: scale}, true)
	stored := make([]byte, len(weights))
	if err == nil {
		err = codec.Quantize(stored, weights, nil, 1)
	}
	fmt.Println(int8(stored[0]), int8(stored[1]), int8(stored[2]), err)
	// Output: -127 50 100 <nil>
}
