package formats_test

import (
	"fmt"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
)

func ExampleSniff() {
	format, err := formats.Sniff(layout.Bytes("GGUF\x03\x00\x00\x00"))
	fmt.Println(format, err)

	_, err = formats.Sniff(layout.Bytes("PK\x03\x04"))
	fmt.Println(err)
	// Output:
	// gguf <nil>
	// unknown: offset 0: magic: a ZIP archive, as PyTorch's .pt, .pth and .bin, NumPy's .npz and Keras's .keras are; known formats: apr2, apr1, april, bw2l, tsm, gguf, safetensors (unsupported operation)
}
