package bw2l_test

import (
	"fmt"
	"log"
	"os"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/bw2l"
)

func ExampleDecode() {
	data, err := os.ReadFile("../../testdata/bw2l/libw2l-v2.b2l")
	if err != nil {
		log.Fatal(err)
	}
	in := layout.Bytes(data)
	f, err := bw2l.Decode(in, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range f.Sections {
		fmt.Printf("section %s of type %s: %d bytes\n", s.Name, s.Type, s.Size)
	}
	for _, t := range f.Index().Tensors[:3] {
		fmt.Printf("%s %v %v: %d bytes at %d\n", t.Name, t.DType, t.Shape, t.Stored, t.Offset)
	}
	md, err := f.Metadata(in)
	if err != nil {
		log.Fatal(err)
	}
	criterion, _ := md.Get("config", "criterion")
	fmt.Println("criterion:", criterion)
	// Output:
	// section flags of type keyval: 60 bytes
	// section config of type keyval: 66 bytes
	// section arch of type utf8: 34 bytes
	// section tokens of type utf8: 6 bytes
	// section layers of type layers: 380 bytes
	// section transitions of type array: 66 bytes
	// section spm of type data: 6 bytes
	// layers.0.0 F32 [2 1 1 3]: 24 bytes at 431
	// layers.0.1 F32 [2]: 8 bytes at 477
	// layers.2.0 F64 [4 2]: 64 bytes at 558
	// criterion: asg
}
