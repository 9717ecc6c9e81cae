package gguf

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// TestBigEndian compares files with what gguf-convert-endian makes of them.
func TestBigEndian(t *testing.T) {
	for _, name := range []string{"values", "llama", "blocks"} {
		little, big := format.Read(t, name), format.Read(t, "big-"+name)
		want, got := format.MustDecode(t, little), format.MustDecode(t, big)
		checkGet(t, got, big)
		if a, b := marshal(t, want, little), marshal(t, got, big); !bytes.Equal(a, b) {
			t.Errorf("%s: metadata %s, want %s", name, b, a)
		}
		if len(got.index.Tensors) != len(want.index.Tensors) || len(got.index.Flags) != 1 {
			t.Fatalf("%s: %d tensors, flags %v", name, len(got.index.Tensors), got.index.Flags)
		}
		for i := range want.index.Tensors {
			a, b := &want.index.Tensors[i], &got.index.Tensors[i]
			elements, err := little.Slice(a.Offset, a.Stored)
			if err != nil {
				t.Fatal(err)
			}
			swapped := bytes.Clone(big[b.Offset:][:b.Stored])
			if b.Encoding == layout.Swapped {
				swapped = make([]byte, b.Raw)
				if err := got.Unpack(big, b, swapped); err != nil {
					t.Fatal(err)
				}
			}
			if string(a.Name) != string(b.Name) || a.DType != b.DType || a.Offset != b.Offset || !bytes.Equal(elements, swapped) {
				t.Errorf("%s: tensor %s is %s %v at %d, want %v at %d, or its bytes differ", name, a.Name, b.Name, b.DType, b.Offset, a.DType, a.Offset)
			}
		}
	}
}

func marshal(t *testing.T, f *File, in layout.Input) []byte {
	t.Helper()
	md, err := f.Metadata(in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(md)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWriterBigEndian writes gguf-convert-endian's files again from the little-endian ones, in pieces of odd sizes.
func TestWriterBigEndian(t *testing.T) {
	for _, name := range []string{"values", "llama", "blocks"} {
		little, want := format.Read(t, name), format.Read(t, "big-"+name)
		f := format.MustDecode(t, little)
		md, err := f.Metadata(little)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w, err := NewWriter(&out, slices.Values(f.index.Tensors), md, &Options{BigEndian: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range f.index.Tensors {
			b := little[x.Offset:][:x.Stored]
			if i%2 == 0 {
				err = w.WriteTensor(b)
			} else {
				err = w.WriteTensorFunc(func(dst io.Writer) error {
					for part := range slices.Chunk(b, 7) {
						if _, err := dst.Write(part); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil || !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%s: %d bytes, %v, or other bytes", name, out.Len(), err)
		}
	}
	_, err := NewWriter(io.Discard, slices.Values([]layout.Tensor{{Name: []byte("a"), DType: layout.IQ2_XS, Shape: []int{256}}}), nil, &Options{BigEndian: true})
	if !errors.Is(err, layout.ErrUnsupported) {
		t.Errorf("IQ2_XS: %v", err)
	}
}

// TestSwapFields holds the places of scales against dequant: without these numbers random blocks are zeros.
func TestSwapFields(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for d, s := range swaps {
		if s == nil {
			continue
		}
		codec, err := dequant.NewCodec(d, layout.Quant{}, false)
		if err != nil {
			t.Fatal(err)
		}
		values, b := make([]float32, d.BlockElems()), make([]byte, d.BlockBytes())
		for i := range b {
			b[i] = byte(rng.Uint32()) & 0x3f
		}
		for _, want := range []bool{false, true} { // all are zero
			if err := codec.Expand(values, b, 0, 1); err != nil {
				t.Fatal(err)
			}
			if zeros := !slices.ContainsFunc(values, func(v float32) bool { return v != 0 }); zeros != want {
				t.Errorf("%v: %v, all zero is to be %t", d, values, want)
			}
			for _, at := range s.at {
				b[at], b[at+1] = 0, 0
			}
		}
	}
}

func TestUnpackRefuses(t *testing.T) {
	big := format.Read(t, "big-blocks")
	f := format.MustDecode(t, big)
	x := f.index.Tensors[0]
	for _, x := range []layout.Tensor{
		{DType: layout.IQ2_XS, Encoding: layout.Swapped}, {DType: layout.F32, Encoding: layout.Raw},
	} {
		if err := f.Unpack(big, &x, nil); !errors.Is(err, layout.ErrUnsupported) {
			t.Errorf("%v, %v: %v", x.DType, x.Encoding, err)
		}
	}
	if err := f.Unpack(big[:x.Offset+4], &x, make([]byte, x.Raw)); err == nil {
		t.Error("a file that ends within a tensor: no error")
	}
}
