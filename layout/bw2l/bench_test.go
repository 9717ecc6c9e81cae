package bw2l_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/bw2l"
)

// network is a file of about n arrays as a convolutional recognizer has them: layers of
// eight arrays, every one of elems numbers, between layers without any. header is what of
// the file is not elements.
func network(version byte, n int, elems uint64) (data layout.Bytes, header int64) {
	params := make([]string, 8)
	for j := range params {
		var dims []uint64
		if version == 2 {
			dims = []uint64{elems, 1, 1}[:1+j%3]
		}
		params[j] = array("fp32", elems, dims, strings.Repeat("\x00", int(4*elems)))
	}
	layer := func(arch string, params ...string) string {
		if version == 1 {
			return layer1(arch, 1, 0, params...)
		}
		return layer2(arch, params...)
	}
	var all []string
	for range n / 8 {
		all = append(all, layer("TDS 15 9 80 0.15 0 1 0", params...), layer("LN 0 1 2"))
	}
	tokens := strings.Repeat("_token\n", 10_000)
	data = file(version, section("arch", "utf8", "L 1 1\n"), section("tokens", "utf8", tokens), section("layers", "layers", layers(all...)))
	return data, int64(len(data)-len(tokens)) - int64(n/8*8)*int64(4*elems)
}

// The bytes counted are those of headers. With few elements these lie close together; with
// many, each is a cache line, or a page, of its own.
func BenchmarkDecode(b *testing.B) {
	for _, version := range []byte{1, 2} {
		for _, tensors := range []int{96, 2000} {
			for _, elems := range []uint64{0, 16, 4096} {
				b.Run(fmt.Sprintf("version=%d/tensors=%d/elements=%d", version, tensors, elems), func(b *testing.B) {
					data, header := network(version, tensors, elems)
					b.SetBytes(header)
					b.ReportAllocs()
					for b.Loop() {
						if _, err := bw2l.Decode(data, nil); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

func BenchmarkMetadata(b *testing.B) {
	data, _ := network(2, 2000, 16)
	f := format.MustDecode(b, data)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Metadata(data); err != nil {
			b.Fatal(err)
		}
	}
}
