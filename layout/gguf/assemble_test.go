package gguf

import (
	"encoding/binary"
	"math"
)

// assembler puts a file together from the tables of docs/gguf.md, version 3, and remembers
// where its counts, lengths, types and offsets are.
type assembler struct {
	b      []byte
	fields []field
}

type field struct {
	at, size int
}

func (a *assembler) u8(v uint8)   { a.b = append(a.b, v) }
func (a *assembler) u16(v uint16) { a.b = binary.LittleEndian.AppendUint16(a.b, v) }

func (a *assembler) u32(v uint32) {
	a.fields = append(a.fields, field{len(a.b), 4})
	a.b = binary.LittleEndian.AppendUint32(a.b, v)
}

func (a *assembler) u64(v uint64) {
	a.fields = append(a.fields, field{len(a.b), 8})
	a.b = binary.LittleEndian.AppendUint64(a.b, v)
}

func (a *assembler) f32(v float32) { a.b = binary.LittleEndian.AppendUint32(a.b, math.Float32bits(v)) }

func (a *assembler) text(s string) {
	a.u64(uint64(len(s)))
	a.b = append(a.b, s...)
}

// header begins a file.
func (a *assembler) header(tensors, kvs uint64) {
	a.b = append(a.b, "GGUF"...)
	a.u32(3)
	a.u64(tensors)
	a.u64(kvs)
}

// key begins a key's value.
func (a *assembler) key(key string, t Type) {
	a.text(key)
	a.u32(uint32(t))
}

// array begins an array's elements.
func (a *assembler) array(key string, elem Type, n int) {
	a.key(key, TypeArray)
	a.u32(uint32(elem))
	a.u64(uint64(n))
}

func (a *assembler) strings(key string, list ...string) {
	a.array(key, TypeString, len(list))
	for _, s := range list {
		a.text(s)
	}
}

// tensor writes a tensor info, dims innermost first.
func (a *assembler) tensor(name string, id uint32, offset uint64, dims ...uint64) {
	a.text(name)
	a.u32(uint32(len(dims)))
	for _, d := range dims {
		a.u64(d)
	}
	a.u32(id)
	a.u64(offset)
}

// data pads to 32 bytes and adds n bytes of data.
func (a *assembler) data(n int) []byte {
	for len(a.b)%32 != 0 {
		a.u8(0)
	}
	return append(a.b, make([]byte, n)...)
}

// small is a file with a bit of everything.
func small() (b []byte, fields []field) {
	var a assembler
	a.header(3, 6)
	a.key("general.alignment", TypeUint32)
	a.u32(32)
	a.key("text", TypeString)
	a.text("some text")
	a.strings("tokens", "a", "", "bcd")
	a.array("scores", TypeFloat32, 2)
	a.f32(1.5)
	a.f32(-2)
	a.key("flag", TypeBool)
	a.u8(1)
	a.key("large", TypeUint64)
	a.u64(7)
	a.tensor("one", 0, 0, 4)       // F32
	a.tensor("two", 8, 32, 32, 2)  // Q8_0, 68 bytes
	a.tensor("three", 24, 128, 16) // I8
	return a.data(160), a.fields
}
