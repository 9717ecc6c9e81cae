package lz4block

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// kinds of data that compress differently.
var kinds = map[string]func(b []byte){
	"zeros":  func(b []byte) {},
	"noise":  func(b []byte) { rand.NewChaCha8([32]byte{1}).Read(b) },
	"period": func(b []byte) { repeat(b, 7) },
	"far":    func(b []byte) { repeat(b, 65_535) },
	"text": func(b []byte) {
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range b {
			b[i] = "abc "[rng.IntN(4)]
		}
	},
	"runs": func(b []byte) {
		rng := rand.New(rand.NewPCG(3, 4))
		for i := 0; i < len(b); {
			n := min(rng.IntN(300)+1, len(b)-i)
			fill := byte(rng.IntN(256))
			for j := range b[i : i+n] {
				b[i+j] = fill * byte(1+j&rng.IntN(2))
			}
			i += n
		}
	},
}

// repeat fills b with noise of so long a period.
func repeat(b []byte, period int) {
	rand.NewChaCha8([32]byte{2}).Read(b[:min(period, len(b))])
	for i := period; i < len(b); i++ {
		b[i] = b[i-period]
	}
}

var sizes = []int{1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17, 18, 19, 31, 255, 270, 271, 65_535, Size}

// decoders are the ways to expand a block; the kernel is one where there is one.
var decoders = map[string]func(dst, src []byte) bool{"the kernel": new(Decoder).Decode, "the library": new(Decoder).decodeCopy}

// TestEncodeForReference compresses with each level, for a decoder that shares no code.
func TestEncodeForReference(t *testing.T) {
	for name, fill := range kinds {
		for _, n := range sizes {
			data := make([]byte, n)
			fill(data)
			for _, level := range []Level{Fast, High} {
				b, err := encode(nil, data, newCompressor(level))
				if err != nil || Length(b) != uint64(len(b)-LengthBytes) || len(b)-LengthBytes > MaxStored {
					t.Fatalf("%s, %d bytes, level %d: %d bytes, %v", name, n, level, len(b), err)
				}
				if got, ok := reference(b[LengthBytes:], n); !ok || !bytes.Equal(got, data) {
					t.Errorf("%s, %d bytes, level %d: expands to something else", name, n, level)
				}
				for by, decode := range decoders {
					got := make([]byte, n)
					if !decode(got, b[LengthBytes:]) || !bytes.Equal(got, data) {
						t.Errorf("%s, %d bytes, level %d: expands to something else by %s", name, n, level, by)
					}
				}
			}
		}
	}
}

func TestDecodeIsExact(t *testing.T) {
	data := []byte("0123456789012345678901234567890123456789")
	b, err := encode(nil, data, newCompressor(Fast))
	if err != nil {
		t.Fatal(err)
	}
	block := b[LengthBytes:]
	for by, decode := range decoders {
		for n := range 2 * len(data) {
			if ok := decode(make([]byte, n), block); ok != (n == len(data)) {
				t.Errorf("%s, room for %d bytes: %t", by, n, ok)
			}
		}
		for n := range block {
			if decode(make([]byte, len(data)), block[:n]) {
				t.Errorf("%s accepted it cut to %d bytes", by, n)
			}
		}
		for _, more := range [][]byte{{0}, {0, 0}, {0, 1, 0}, {16, 'x'}} {
			if decode(make([]byte, len(data)), append(bytes.Clone(block), more...)) {
				t.Errorf("%s accepted it with % x behind it", by, more)
			}
		}
		// A match before the first byte, and one of distance 0.
		for _, bad := range [][]byte{{0x10, 'x', 2, 0, 0x50, 1, 2, 3, 4, 5}, {0x10, 'x', 0, 0, 0x50, 1, 2, 3, 4, 5}, {0x00, 1, 0, 0x50, 1, 2, 3, 4, 5}} {
			if decode(make([]byte, 10), bad) || decode(make([]byte, 9), bad) {
				t.Errorf("%s accepted % x", by, bad)
			}
		}
	}
}

// TestDecodeWritesOnlyItsMemory has bytes behind and before the destination.
func TestDecodeWritesOnlyItsMemory(t *testing.T) {
	for name, fill := range kinds {
		data := make([]byte, 3000)
		fill(data)
		b, err := encode(nil, data, newCompressor(Fast))
		if err != nil {
			t.Fatal(err)
		}
		for by, decode := range decoders {
			memory := bytes.Repeat([]byte{0xa5}, 5000)
			if !decode(memory[1000:4000], b[LengthBytes:]) || !bytes.Equal(memory[1000:4000], data) {
				t.Errorf("%s by %s: other bytes", name, by)
			}
			for n := range 3000 { // too little room
				decode(memory[1000:1000+n:4000], b[LengthBytes:])
				if memory[1000+n] != data[n] {
					t.Fatalf("%s by %s: byte %d is overwritten", name, by, n)
				}
				copy(memory[1000:4000], data)
			}
			if rest := append(memory[:1000:1000], memory[4000:]...); !bytes.Equal(rest, bytes.Repeat([]byte{0xa5}, 2000)) {
				t.Errorf("%s by %s: bytes outside are overwritten", name, by)
			}
		}
	}
}

// FuzzDecode compares with the reference: the same bytes, or both refuse.
func FuzzDecode(f *testing.F) {
	for _, fill := range kinds {
		for _, n := range []int{1, 13, 40, 1000} {
			data := make([]byte, n)
			fill(data)
			b, err := encode(nil, data, newCompressor(Fast))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b[LengthBytes:], uint16(n))
			f.Add(b[LengthBytes:], uint16(n-1))
			f.Add(literals(data), uint16(n))
		}
	}
	f.Add([]byte{0x1f, 0, 1, 0, 255, 255, 0, 0x50, 0, 0, 0, 0, 0}, uint16(535))
	f.Fuzz(func(t *testing.T, src []byte, n uint16) {
		size := int(n) + 1
		want, ok := reference(src, size)
		ok = ok && len(want) == size
		for by, decode := range decoders {
			memory := bytes.Repeat([]byte{0x5a}, size+128)
			dst := memory[64 : 64+size]
			if got := decode(dst, src); got != ok {
				t.Errorf("%s: % x into %d bytes: %t, the reference says %t", by, src, size, got, ok)
			} else if ok && !bytes.Equal(dst, want) {
				t.Errorf("%s: % x into %d bytes: other bytes than the reference's", by, src, size)
			}
			edge := bytes.Repeat([]byte{0x5a}, 64)
			if !bytes.Equal(memory[:64], edge) || !bytes.Equal(memory[64+size:], edge) {
				t.Errorf("%s: % x into %d bytes: bytes outside are overwritten", by, src, size)
			}
		}
	})
}
