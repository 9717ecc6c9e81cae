package bw2l_test

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// Files of tests are put together from these, in the words of the specification.

func u64(v uint64) string { return string(binary.LittleEndian.AppendUint64(nil, v)) }

func str8(s string) string { return string([]byte{byte(len(s))}) + s }

func str64(s string) string { return u64(uint64(len(s))) + s }

// file has the name "m", so that sections begin at offset 15.
func file(version byte, sections ...string) layout.Bytes {
	return layout.Bytes("BW2L" + string([]byte{version}) + str8("m") + u64(uint64(len(sections))) + strings.Join(sections, ""))
}

// section has a one-byte name in all tests that look at offsets: its data_length is then at
// 11 + len(kind) from its start, its data 8 bytes on.
func section(name, kind, data string) string {
	return str8(name) + str8(kind) + str64("") + str64(data)
}

// array has dims in version 2, that is where they are not nil.
func array(kind string, n uint64, dims []uint64, data string) string {
	s := str8(kind) + u64(n)
	if dims != nil {
		s += string([]byte{byte(len(dims))})
		for _, d := range dims {
			s += u64(d)
		}
	}
	return s + data
}

func layer1(arch string, scale float32, offset int64, arrays ...string) string {
	bits := string(binary.LittleEndian.AppendUint32(nil, math.Float32bits(scale)))
	return str64(arch) + bits + u64(uint64(offset)) + u64(uint64(len(arrays))) + strings.Join(arrays, "")
}

func layer2(arch string, arrays ...string) string {
	return str64(arch) + u64(uint64(len(arrays))) + strings.Join(arrays, "")
}

func layers(all ...string) string { return u64(uint64(len(all))) + strings.Join(all, "") }
