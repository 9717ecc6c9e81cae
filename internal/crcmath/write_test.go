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

// TestWriter writes more than is written at a time, in slices of several lengths.
func TestWriter(t *testing.T) {
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * i >> 8)
	}
	for _, n := range []int{1 << 20, 1<<19 + 1, 1 << 18, 4097} {
		var out bytes.Buffer
		s := crcmath.Writer{W: &out}
		for rest := data; len(rest) > 0; {
			b := rest[:min(n, len(rest))]
			rest = rest[len(b):]
			if n, err := s.Write(b); n != len(b) || err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(out.Bytes(), data) || s.Size != 1<<20 || s.CRC32 != crc32.ChecksumIEEE(data) {
			t.Errorf("%d at a time: %d bytes, %d, %#x", n, out.Len(), s.Size, s.CRC32)
		}
	}
}

func TestWriterFails(t *testing.T) {
	for short, want := range map[bool]error{false: iofault.ErrDisk, true: io.ErrShortWrite} {
		s := crcmath.Writer{W: &iofault.Full{Left: 300_000, Short: short}}
		if n, err := s.Write(make([]byte, 400_000)); !errors.Is(err, want) || n != 300_000 || s.Size != 300_000 {
			t.Errorf("%v after %d bytes, want %v", err, s.Size, want)
		}
		if _, err := s.Write(nil); err != nil {
			t.Errorf("nothing: %v", err)
		}
	}
}
