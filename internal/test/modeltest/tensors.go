package modeltest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
)

// Noise returns n bytes that are the same in every run.
func Noise(n uint64, seed uint64) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}

// Random returns a tensor of random bytes, as every dtype may have them.
func Random(name string, d layout.DType, shape ...int) Tensor {
	size, err := d.Size(shape)
	if err != nil {
		panic(err)
	}
	return Tensor{Name: name, DType: d, Shape: shape, Data: Noise(size, uint64(d)<<32+size)}
}

// Finite returns a tensor of random floats without NaNs and infinities.
func Finite(name string, d layout.DType, shape ...int) Tensor {
	c := Random(name, d, shape...)
	for i := range c.Data {
		c.Data[i] &^= 0x40 // an exponent bit in the last byte of every float
	}
	return c
}

// Elements returns the product of the shape.
func (c Tensor) Elements() uint64 {
	n, _ := layout.Elements(c.Shape)
	return n
}

// Equal reports whether c and d have the same name, dtype, shape and bytes.
func (c Tensor) Equal(d Tensor) bool {
	return c.Name == d.Name && c.DType == d.DType && slices.Equal(c.Shape, d.Shape) && bytes.Equal(c.Data, d.Data)
}

// required are the keys that metadata of APR2 must have.
var required = layout.Metadata{
	{Key: "apr_version", Value: "2.0.0"},
	{Key: "model_type", Value: "test"},
	{Key: "architecture", Value: layout.Metadata{}},
}

// APR2Model returns an APR2 file as APR2 does, with the keys that its metadata must have before md.
func APR2Model(t testing.TB, md layout.Metadata, tensors ...Tensor) []byte {
	t.Helper()
	return APR2(t, slices.Concat(required, md), tensors...)
}

// APR2 returns an APR2 file of the tensors, by this project's own writer.
func APR2(t testing.TB, md layout.Metadata, tensors ...Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	w := beginAPR2(t, &b, md, tensors)
	for _, c := range tensors {
		content := c.Data
		if c.LZ4 != nil {
			content = c.LZ4
		}
		if err := w.WriteTensor(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// beginAPR2 writes what an APR2 file has before its tensors to b. It does not look at their Data.
func beginAPR2(t testing.TB, b *bytes.Buffer, md layout.Metadata, tensors []Tensor) *apr2.Writer {
	t.Helper()
	list := make([]layout.Tensor, len(tensors))
	for i, c := range tensors {
		list[i] = layout.Tensor{Name: []byte(c.Name), DType: c.DType, Shape: c.Shape}
		if c.LZ4 != nil {
			list[i].Encoding, list[i].Stored = layout.LZ4, uint64(len(c.LZ4))
		}
	}
	w, err := apr2.NewWriter(b, slices.Values(list), &apr2.Options{Metadata: md})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// APR2Head returns the start of an APR2 file up to its tensors, whose Data is not looked at, and the size of the whole file.
func APR2Head(t testing.TB, md layout.Metadata, tensors ...Tensor) (head []byte, size uint64) {
	t.Helper()
	var b bytes.Buffer
	w := beginAPR2(t, &b, slices.Concat(required, md), tensors)
	return b.Bytes(), w.Size()
}

// SparseAPR2 writes a file of zeros with these tensors, so large that it is better not written. Its checksum is wrong, which
// opening does not look at.
func SparseAPR2(t testing.TB, tensors ...Tensor) (path string) {
	t.Helper()
	head, size := APR2Head(t, nil, tensors...)
	path = Write(t, "sparse.apr", head)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	footer := binary.LittleEndian.AppendUint64([]byte("\x00\x00\x00\x002RPA"), size)
	if _, err := f.WriteAt(footer, int64(size)-int64(len(footer))); err != nil {
		t.Fatal(err)
	}
	return path
}

// Blocks compresses data to blocks of LZ4, as APR2 has them. They are not nil if there are none.
func Blocks(t testing.TB, data []byte) []byte {
	t.Helper()
	out := bytes.NewBuffer([]byte{})
	w := lz4block.NewWriter(out, lz4block.Fast)
	_, err := w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// LiteralBlocks puts data into blocks of LZ4 without compressing it.
func LiteralBlocks(data []byte) (out []byte) {
	for block := range slices.Chunk(data, lz4block.Size) {
		b := []byte{byte(min(len(block), 15) << 4)}
		if n := len(block) - 15; n >= 0 {
			b = append(append(b, bytes.Repeat([]byte{255}, n/255)...), byte(n%255))
		}
		out = binary.LittleEndian.AppendUint32(out, uint32(len(b)+len(block)))
		out = append(append(out, b...), block...)
	}
	return out
}
