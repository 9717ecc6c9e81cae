package apr1

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// manyTensors is a file of n tensors with the names and shapes of a transformer, without
// the bytes of the tensors.
func manyTensors(n int, d layout.DType) layouttest.Sparse {
	tensors := make([]layout.Tensor, n)
	for i := range tensors {
		tensors[i] = layout.Tensor{Name: fmt.Appendf(nil, "decoder.layers.%d.self_attn.%d.weight", i/8, i%8), DType: d, Shape: []int{384, 384}}
	}
	return assemble(0, tensors...)
}

// manyJSON is the same in the container JSON.
func manyJSON(n int) layouttest.Sparse {
	var index []byte
	for i := range n {
		index = fmt.Appendf(index, `,{"name":"decoder.layers.%d.self_attn.%d.weight","dtype":"F32","shape":[384,384],"offset":%d,"size":589824}`, i/8, i%8, uint64(i)*589824)
	}
	index[0] = '['
	index = append(index, ']')
	b := append([]byte("APR1\x02\x00\x00\x00{}"), binary.LittleEndian.AppendUint32(nil, uint32(n))...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(index)))
	b = append(b, index...)
	return layouttest.Sparse{Head: b, Whole: uint64(len(b)) + uint64(n)*589824 + crcSize}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{100, 2000, 20_000} {
		for container, in := range map[string]layouttest.Sparse{
			"f32":  manyTensors(n, layout.F32),
			"int8": manyTensors(n, layout.I8),
			"json": manyJSON(n),
		} {
			b.Run(fmt.Sprintf("tensors=%d/%s", n, container), func(b *testing.B) {
				b.SetBytes(int64(len(in.Head)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Decode(in, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkMetadata(b *testing.B) {
	v := &vocabulary{}
	for i := range 51_865 {
		v.Tokens = append(v.Tokens, fmt.Sprintf("token %d", i))
		if i < 50_000 {
			v.Merges = append(v.Merges, [2]string{"token", fmt.Sprint(i)})
		}
	}
	in := withVocabulary(v)
	f := format.MustDecode(b, in)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Metadata(in); err != nil {
			b.Fatal(err)
		}
	}
}
