package mmapio

import (
	"fmt"
	"os"
	"testing"
)

func BenchmarkGuard(b *testing.B) {
	b.ReportAllocs()
	var sum byte
	data := noise(64)
	for b.Loop() {
		Guard(func() error { sum += data[5]; return nil })
	}
}

func BenchmarkView(b *testing.B) {
	b.ReportAllocs()
	data := AlignedBytes(4096)
	for b.Loop() {
		if _, err := View[float32](data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSlice(b *testing.B) {
	for _, k := range makers {
		b.Run("kind="+k.name, func(b *testing.B) {
			m := k.make(b, noise(8192))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Slice(100, 4096); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMap maps and closes: the time must not depend on the size.
func BenchmarkMap(b *testing.B) {
	for _, size := range []int64{1 << 12, 1 << 30} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			path := writeFile(b, nil)
			if err := os.Truncate(path, size); err != nil {
				b.Skip(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				m, err := Map(path)
				if err != nil {
					b.Fatal(err)
				}
				m.Close()
			}
		})
	}
}
