package apr2_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"math"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
)

func ExampleNewWriter() {
	weights := []float32{1, 2, 3, 4, 5, 6}
	var data []byte
	for _, x := range weights {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}

	var out bytes.Buffer
	w, err := apr2.NewWriter(&out, slices.Values([]layout.Tensor{
		{Name: []byte("layer.weight"), DType: layout.F32, Shape: []int{2, 3}},
		{Name: []byte("layer.bias"), DType: layout.F32, Shape: []int{2}},
	}), &apr2.Options{Metadata: layout.Metadata{
		{Key: "apr_version", Value: "2.0.0"},
		{Key: "model_type", Value: "linear"},
		{Key: "architecture", Value: layout.Metadata{{Key: "n_in", Value: 3}, {Key: "n_out", Value: 2}}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.WriteTensor(data); err != nil {
		log.Fatal(err)
	}
	if err := w.WriteTensorFunc(func(dst io.Writer) error {
		return binary.Write(dst, binary.LittleEndian, []float32{0.5, -0.5})
	}); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	f, err := apr2.Decode(layout.Bytes(out.Bytes()), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range f.Index().Tensors {
		fmt.Printf("%s %v %v: %d bytes at %d\n", t.Name, t.DType, t.Shape, t.Stored, t.Offset)
	}
	// Output:
	// layer.weight F32 [2 3]: 24 bytes at 256
	// layer.bias F32 [2]: 8 bytes at 320
}
