package quantize_test

import (
	"fmt"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/quantize"
)

// Weights become blocks of Q4_0 by the importance of their columns, and what that loses is counted.
func Example() {
	weights, importance := make([]float32, 64), make([]float32, 32)
	for i := range weights {
		weights[i], importance[i%32] = float32(i-32)/4, 1
	}
	codec, err := dequant.NewCodec(layout.Q4_0, layout.Quant{}, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	stored, values := make([]byte, 2*18), make([]float32, 64)
	loss, err := quantize.EncodeLoss(codec, stored, weights, importance, values, dequant.AllCores)
	fmt.Printf("%d of %d values became zero, error: %v\n", loss.Zeroed, len(weights), err)
	fmt.Println(weights[0], "became", values[0])
	// Output:
	// 2 of 64 values became zero, error: <nil>
	// -8 became -7.8007812
}

// Weights become int8s with the scale that their largest magnitude wants.
func ExampleInt8Scale() {
	weights := []float32{-1.27, 0.5, 1}
	var most quantize.Int8Scale
	most.Add(weights)
	scale, err := most.Scale()
	if err != nil {
		fmt.Println(err)
		return
	}
	codec, err := dequant.NewCodec(layout.I8, layout.Quant{Scale: scale}, true)
	stored := make([]byte, len(weights))
	if err == nil {
		err = quantize.Encode(codec, stored, weights, nil, 1)
	}
	fmt.Println(int8(stored[0]), int8(stored[1]), int8(stored[2]), err)
	// Output: -127 50 100 <nil>
}
