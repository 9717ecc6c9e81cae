package safetensors

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"

	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// llm is a file like those of large language models, without its data: blocks of nine
// tensors with the names, shapes and sizes of Llama 3's. space stands behind colons.
func llm(tensors int, space string) layouttest.Sparse {
	parts := []struct {
		name  string
		shape []int
	}{
		{"self_attn.q_proj.weight", []int{4096, 4096}},
		{"self_attn.k_proj.weight", []int{1024, 4096}},
		{"self_attn.v_proj.weight", []int{1024, 4096}},
		{"self_attn.o_proj.weight", []int{4096, 4096}},
		{"mlp.gate_proj.weight", []int{14336, 4096}},
		{"mlp.up_proj.weight", []int{14336, 4096}},
		{"mlp.down_proj.weight", []int{4096, 14336}},
		{"input_layernorm.weight", []int{4096}},
		{"post_attention_layernorm.weight", []int{4096}},
	}
	h := []byte(`{"__metadata__":{"format":"pt"}`)
	var end uint64
	for i := range tensors {
		p := parts[i%len(parts)]
		begin := end
		size := uint64(2)
		for _, n := range p.shape {
			size *= uint64(n)
		}
		end += size
		h = fmt.Appendf(h, `,"model.layers.%[2]d.%[3]s":%[1]s{"dtype":%[1]s"BF16","shape":%[1]s[`, space, i/len(parts), p.name)
		for j, n := range p.shape {
			if j > 0 {
				h = append(h, ',')
			}
			h = strconv.AppendInt(h, int64(n), 10)
		}
		h = fmt.Appendf(h, `],"data_offsets":%s[%d,%d]}`, space, begin, end)
	}
	h = append(h, '}')
	for len(h)%8 != 0 {
		h = append(h, ' ')
	}
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(h))), h...)
	return layouttest.Sparse{Head: b, Whole: uint64(len(b)) + end}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{100, 2000, 20000} {
		b.Run(fmt.Sprintf("tensors=%d", n), func(b *testing.B) { decodeAgain(b, llm(n, "")) })
	}
}

// BenchmarkDecodeSpaced reads headers that are not in the usual notation.
func BenchmarkDecodeSpaced(b *testing.B) { decodeAgain(b, llm(2000, " ")) }

func decodeAgain(b *testing.B, in layouttest.Sparse) {
	b.SetBytes(int64(len(in.Head)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(in, nil); err != nil {
			b.Fatal(err)
		}
	}
}
