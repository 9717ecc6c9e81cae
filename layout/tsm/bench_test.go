package tsm

import (
	"fmt"
	"testing"
)

// BenchmarkDecode counts the bytes that are read: all but the tensors'.
func BenchmarkDecode(b *testing.B) {
	for _, blocks := range []int{16, 256} {
		for _, channels := range []int{1, 32} {
			m := network(blocks, channels)
			b.Run(fmt.Sprintf("nodes=%d/channels=%d", 7*blocks+1, channels), func(b *testing.B) {
				in := m.in()
				b.SetBytes(int64(len(m.b) - m.memory))
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
