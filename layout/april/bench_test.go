package april

import (
	"fmt"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// transducer is a file with networks such as an LSTM transducer's export has, whose
// operators have names as long as theirs and inputs by the same; index is its size but for
// the elements.
func transducer(layers, size int) (data layout.Bytes, index int) {
	elements := make([]byte, size)
	var graph []byte
	for i := range layers {
		for _, part := range []string{"feed_forward.0.weight", "feed_forward.0.bias", "lstm.weight_ih_l0", "lstm.weight_hh_l0", "norm_final.eps"} {
			name := fmt.Sprintf("encoder.encoder.layers.%d.%s", i, part)
			graph = appendRecord(graph, 1, operator(name))
			graph = appendRecord(graph, 5, rawTensor(name, 1, elements, int64(size/16), 4))
			index -= size
		}
	}
	file := good(modelProto(graph)).assemble()
	return file, index + len(file)
}

// operator is a NodeProto that reads the tensor called name.
func operator(name string) (n []byte) {
	n = appendRecord(n, 1, []byte("/encoder/Transpose_output_0"))
	n = appendRecord(n, 1, []byte(name))
	n = appendRecord(n, 2, []byte("/encoder/MatMul_output_0"))
	n = appendRecord(n, 3, []byte("/encoder/"+name+"/MatMul"))
	return appendRecord(n, 4, []byte("MatMul"))
}

func BenchmarkDecode(b *testing.B) {
	for _, layers := range []int{12, 400} {
		b.Run(fmt.Sprintf("tensors=%d", 5*layers), func(b *testing.B) {
			data, index := transducer(layers, 8<<10)
			benchmarkDecode(b, data, index)
		})
	}
	b.Run("smallest=2000", func(b *testing.B) {
		data := smallest(2000)
		benchmarkDecode(b, data, len(data))
	})
}

// smallest is a file with n tensors that take as little of it as can be.
func smallest(n int) layout.Bytes {
	tensors := make([][]byte, n)
	for i := range tensors {
		tensors[i] = rawTensor(fmt.Sprintf("%x", i), 2, nil, 0)
	}
	return good(onnx(tensors...)).assemble()
}

func benchmarkDecode(b *testing.B, data layout.Bytes, index int) {
	b.SetBytes(int64(index))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(data, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnpack(b *testing.B) {
	const n = 1 << 20
	for _, tc := range []struct {
		name  string
		kind  int32
		value int64
	}{{"int32", 6, 300}, {"uint8", 2, 200}} {
		b.Run(tc.name, func(b *testing.B) {
			values := make([]int64, n)
			for i := range values {
				values[i] = tc.value
			}
			data := good(onnx(numberTensor("t", tc.kind, 5, values, n))).assemble()
			f, err := Decode(data, nil)
			if err != nil {
				b.Fatal(err)
			}
			t := &f.Index().Tensors[3]
			dst := make([]byte, t.Raw)
			b.SetBytes(int64(t.Raw))
			b.ReportAllocs()
			for b.Loop() {
				if err := f.Unpack(data, t, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
