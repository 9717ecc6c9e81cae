package bind_test

import (
	"fmt"
	"log"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/bind"
)

// Block and Llama describe what the code needs of a model.
type Block struct {
	Norm  []float32     `tensor:"attn_norm.weight" shape:"hidden"`
	Query loader.Tensor `tensor:"attn_q.weight" shape:"_,hidden"`
}

type Llama struct {
	Words  loader.Tensor `tensor:"token_embd.weight" shape:"vocab,hidden"`
	Blocks []Block       `tensor:"blk.%d."`
}

func ExampleStruct() {
	m, err := loader.Open("../../testdata/gguf/llama.gguf", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	var llama Llama
	dims := bind.Dims{}
	if err := bind.Struct(&llama, m, dims); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(llama.Blocks), dims["hidden"], llama.Words.DType())
	// Output: 2 32 Q8_0
}
