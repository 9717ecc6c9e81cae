package april_test

import (
	"fmt"
	"log"

	"github.com/tensormap/tensormap/loader"
)

// The networks of an .april file are ONNX models. Their bytes go to a runtime as they are
// in the mapped file, without a copy, whatever their alignment.
func Example() {
	m, err := loader.Open("../../testdata/april/streaming.april", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	for _, name := range []string{"networks/encoder", "networks/decoder", "networks/joiner"} {
		t, err := m.Tensor(name)
		if err != nil {
			log.Fatal(err)
		}
		model, err := t.Bytes() // for CreateSessionFromArray, say; valid until m.Close
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: an ONNX model of %d bytes\n", t.Name(), len(model))
	}
	// Output:
	// networks/encoder: an ONNX model of 1616 bytes
	// networks/decoder: an ONNX model of 454 bytes
	// networks/joiner: an ONNX model of 602 bytes
}
