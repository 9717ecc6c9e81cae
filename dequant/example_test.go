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
	off, size := codec.ByteRange(33, 4)
	values := make([]float32, 4)
	err = codec.Expand(values, tensor[off:off+size], 33, dequant.AllCores)
	fmt.Println(off, size, values, err)
	// Output: 18 18 [0.5 1 1.5 2] <nil>
}
