package gguf

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/tensormap/tensormap/layout"
)

var le = binary.LittleEndian

// Format describes GGUF files.
var Format = layout.FileFormat{Name: layout.GGUF, Suffix: ".gguf", Matches: layout.Magic(0, magic), Decode: layout.AsDecoder(Decode)}

const (
	magic         = "GGUF"
	atVersion     = 4
	atTensorCount = 8

	defaultAlign = 32

	// ggml and docs/gguf.md both take these types. More is read, with a finding, and not written.
	minAlign = 8
	maxAlign = 4096

	maxKey    = 1<<16 - 1
	maxString = 1 << 30 // bytes
	maxArray  = 1 << 30 // elements
)

// width is the size in bytes of counts and lengths, and the byte order of all numbers.
type width struct {
	bytes uint64
	big   bool // big-endian
}

// order returns the byte order of numbers.
func (w width) order() binary.ByteOrder {
	if w.big {
		return binary.BigEndian
	}
	return le
}

// u32 reads the number that b starts with.
func (w width) u32(b []byte) uint32 {
	if w.big {
		return binary.BigEndian.Uint32(b)
	}
	return le.Uint32(b)
}

// uint reads the count or length that b starts with.
func (w width) uint(b []byte) uint64 { return w.uintAt(b, 0) }

// uintAt reads the count or length at i. The three-index slices let the compiler drop a bounds
// check.
func (w width) uintAt(b []byte, i uint64) uint64 {
	switch {
	case w.bytes == 4:
		return uint64(w.u32(b[i : i+4 : i+4]))
	case w.big:
		return binary.BigEndian.Uint64(b[i : i+8 : i+8])
	}
	return le.Uint64(b[i : i+8 : i+8])
}

// smallestKV returns the fewest bytes of a key, its type and its value.
func (w width) smallestKV() uint64 { return w.bytes + 4 + 1 }

// typeAndOffset is the number of bytes at the end of a tensor info, behind its dimensions.
const typeAndOffset = 4 + 8

// smallestInfo returns the fewest bytes of a tensor info.
func (w width) smallestInfo() uint64 { return w.bytes + 4 + typeAndOffset }

// Type is the type of a metadata value, numbered as in the file.
type Type uint32

// The types of values.
const (
	TypeUint8 Type = iota
	TypeInt8
	TypeUint16
	TypeInt16
	TypeUint32
	TypeInt32
	TypeFloat32
	TypeBool
	TypeString
	TypeArray
	TypeUint64
	TypeInt64
	TypeFloat64

	numTypes
)

type typeInfo struct {
	name   string
	size   uint64       // in bytes; 0 if values differ in size
	goType reflect.Type // of all but arrays
}

var types = [numTypes]typeInfo{
	TypeUint8: {"uint8", 1, reflect.TypeFor[uint8]()}, TypeInt8: {"int8", 1, reflect.TypeFor[int8]()},
	TypeUint16: {"uint16", 2, reflect.TypeFor[uint16]()}, TypeInt16: {"int16", 2, reflect.TypeFor[int16]()},
	TypeUint32: {"uint32", 4, reflect.TypeFor[uint32]()}, TypeInt32: {"int32", 4, reflect.TypeFor[int32]()},
	TypeUint64: {"uint64", 8, reflect.TypeFor[uint64]()}, TypeInt64: {"int64", 8, reflect.TypeFor[int64]()},
	TypeFloat32: {"float32", 4, reflect.TypeFor[float32]()}, TypeFloat64: {"float64", 8, reflect.TypeFor[float64]()},
	TypeBool:   {"bool", 1, reflect.TypeFor[bool]()},
	TypeString: {"string", 0, reflect.TypeFor[string]()}, TypeArray: {name: "array"},
}

// String returns the name of the type in docs/gguf.md, lower case, such as "uint32".
func (t Type) String() string {
	if t >= numTypes {
		return fmt.Sprintf("Type(%d)", uint32(t))
	}
	return types[t].name
}
