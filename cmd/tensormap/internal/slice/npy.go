package slice

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// NpyTypes are NumPy's names of the dtypes that it has itself. Tensors of all others are
// written as float32.
var NpyTypes = map[layout.DType]string{
	layout.F16: "<f2", layout.F32: "<f4", layout.F64: "<f8",
	layout.I8: "|i1", layout.I16: "<i2", layout.I32: "<i4", layout.I64: "<i8",
	layout.U8: "|u1", layout.U16: "<u2", layout.U32: "<u4", layout.U64: "<u8",
	layout.BOOL: "|b1",
	layout.C64:  "<c8", layout.C128: "<c16",
}

const npyFloat32 = "<f4"

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
