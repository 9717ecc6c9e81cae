package slice

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Formats are the ways to write a region, the default first, in the order that help shows them.
var Formats = []string{"f32", "raw", "npy", "text"}

// Write writes a region in one of the ways of Formats. A NumPy file is of the elements as they are stored if NumPy has their type, else of
// float32s.
func Write(w io.Writer, as string, r *Region) error {
	switch as {
	case "f32":
		return writeFloat32(w, r, nil)
	case "raw":
		return writeRaw(w, r)
	case "npy":
		descr, ok := NpyTypes[r.Tensor.DType()]
		if !ok {
			return writeFloat32(w, r, NumPyHeader(NpyTypes[layout.F32], r.shape()))
		}
		if _, err := w.Write(NumPyHeader(descr, r.shape())); err != nil {
			return err
		}
		return writeRaw(w, r)
	case "text":
		return writeText(w, r)
	}
	panic("no such way to write a tensor: " + as)
}

// writeRaw writes the elements as they are stored. It fails for a slice of a type that packs elements together.
func writeRaw(w io.Writer, r *Region) error {
	if r.Whole {
		_, err := r.Tensor.WriteTo(w)
		return err
	}
	if err := r.checkRaw(); err != nil {
		return err
	}
	return r.eachElements(func(b []byte) error {
		_, err := w.Write(b)
		return err
	})
}

// dumpStep is the maximum number of elements that are read at a time.
const dumpStep = 1 << 20

// writeFloat32 writes header and values. It fails, and writes nothing, for a tensor whose elements have no values.
func writeFloat32(w io.Writer, r *Region, header []byte) error {
	if err := r.Tensor.DequantizeRange(nil, 0); err != nil && r.Tensor.Elements() > 0 {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	return r.eachValues(func(values []float32) error {
		_, err := w.Write(mmapio.Bytes(values))
		return err
	})
}

// Bytes returns how many bytes Write writes but for a header, and 0 for text.
func Bytes(as string, r *Region) uint64 {
	n, _ := layout.Elements(r.shape())
	_, typed := NpyTypes[r.Tensor.DType()]
	switch {
	case as == "text":
		return 0
	case as == "raw" && r.Whole:
		return r.Tensor.RawBytes()
	case as == "raw", as == "npy" && typed:
		return n * uint64(r.Tensor.DType().BlockBytes())
	}
	return n * 4
}

// NpyTypes are NumPy's names of the dtypes that it has. Tensors of all others are written as float32.
var NpyTypes = map[layout.DType]string{
	layout.F16: "<f2", layout.F32: "<f4", layout.F64: "<f8",
	layout.I8: "|i1", layout.I16: "<i2", layout.I32: "<i4", layout.I64: "<i8",
	layout.U8: "|u1", layout.U16: "<u2", layout.U32: "<u4", layout.U64: "<u8",
	layout.BOOL: "|b1",
	layout.C64:  "<c8", layout.C128: "<c16",
}

// NumPyHeader returns the beginning of a NumPy file of version 1.0 (NEP 1), up to the elements:
//
//	0   6  \x93NUMPY
//	6   2  version 1, 0
//	8   2  n, little-endian
//	10  n  Python dictionary, spaces, newline; 10+n is a multiple of 64
//
// n fits: a shape of the most dimensions there can be takes about 1,400 bytes.
func NumPyHeader(descr string, shape []int) []byte {
	const fixed, align = 10, 64
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, pythonTuple(shape))
	total := (fixed + len(dict) + 1 + align - 1) / align * align
	b := make([]byte, 0, total)
	b = append(b, "\x93NUMPY\x01\x00"...)
	b = binary.LittleEndian.AppendUint16(b, uint16(total-fixed))
	b = append(b, dict...)
	b = append(b, strings.Repeat(" ", total-1-len(b))...)
	return append(b, '\n')
}

// pythonTuple formats a shape: (), (3,) or (3, 4).
func pythonTuple(shape []int) string {
	items := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(shape), "[]")), ", ")
	if len(shape) == 1 {
		items += ","
	}
	return "(" + items + ")"
}
