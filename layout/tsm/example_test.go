package tsm_test

import (
	"fmt"
	"log"
	"os"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/tsm"
)

func Example() {
	b, err := os.ReadFile("../../testdata/tsm/tennis-graph.tsm")
	if err != nil {
		log.Fatal(err)
	}
	f, err := tsm.Decode(layout.Bytes(b), nil)
	if err != nil {
		log.Fatal(err)
	}
	g, err := f.Graph(layout.Bytes(b))
	if err != nil {
		log.Fatal(err)
	}
	for _, i := range g.Inputs {
		dtype, _ := g.Nodes[i].Attributes.Get("dtype")
		shape, _ := g.Nodes[i].Attributes.Get("shape")
		fmt.Println("in:", g.Nodes[i].Name, dtype, shape)
	}
	for _, n := range g.Nodes {
		if n.Op == "<const>" {
			t := f.Index().Tensors[f.Index().Find(n.Tensors[0])]
			fmt.Println(string(t.Name), t.DType, t.Shape, "at", t.Offset)
		}
	}
	// Output:
	// in: image F32 [-1 3 8 8]
	// scale1_weights/value F32 [4 3 3 3] at 1426
	// scale1_bias/value F32 [4] at 1948
	// _const_block/conv_weights/value F32 [4 4 1 1] at 2447
	// _const_fc_rhs/value F32 [64 5] at 2607
	// _const_fc/bias_bias/value F32 [5] at 3985
}
