package crcmath_test

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"github.com/tensormap/tensormap/internal/crcmath"
	"github.com/tensormap/tensormap/internal/test/iofault"
)

// TestSum writes more than is written at a time, in slices of several lengths.
func TestSum(t *testing.T) {
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * i >> 8)
	}
	for _, n := range []int{1 << 20, 1<<19 + 1, 1 << 18, 4097} {
		var s crcmath.Sum
		var out bytes.Buffer
		for rest := data; len(rest) > 0; {
			b := rest[:min(n, len(rest))]
			rest = rest[len(b):]
			if err := s.Write(&out, b); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(out.Bytes(), data) || s.Size != 1<<20 || s.CRC32 != crc32.ChecksumIEEE(data) {
			t.Errorf("%d at a time: %d bytes, %+v", n, out.Len(), s)
		}
	}
}

func TestSumFails(t *testing.T) {
	for short, want := range map[bool]error{false: iofault.ErrDisk, true: io.ErrShortWrite} {
		var s crcmath.Sum
		w := &iofault.Full{Left: 300_000, Short: short}
		if err := s.Write(w, make([]byte, 400_000)); !errors.Is(err, want) || s.Size != 300_000 {
			t.Errorf("%v after %d bytes, want %v", err, s.Size, want)
		}
		if err := s.Write(w, nil); err != nil {
			t.Errorf("nothing: %v", err)
		}
	}
}
