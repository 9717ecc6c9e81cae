package layout_test

import (
	"fmt"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

func ExampleDType_Size() {
	// Blocks of 32 elements and 34 bytes run along the innermost dimension.
	fmt.Println(layout.Q8_0.Size([]int{4096, 11008}))
	fmt.Println(layout.Q8_0.Size([]int{4096, 40}))
	// Output:
	// 47906816 <nil>
	// 0 40 elements are no multiple of Q8_0's block of 32
}

func ExampleMetadata_Get() {
	md, err := jsontext.Parse([]byte(`{"model_type": "whisper", "quantization": {"bits": 8}}`),
		layout.APR2, 64, "metadata", (*layout.Limits)(nil).WithDefaults())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(md.Get("quantization", "bits"))
	// Output: 8 true
}
