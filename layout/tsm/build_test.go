package tsm

import (
	"encoding/binary"
	"fmt"

	"github.com/tensormap/tensormap/layout"
)

// builder assembles modules for tests, after the specification's tables.
type builder struct {
	b      []byte
	memory int // bytes of tensors' memory among b
}

// build starts a module that declares no inputs and outputs, and so many nodes.
func build(nodes int) *builder {
	b := new(builder)
	b.i32(0, moduleCode)
	b.b = append(b.b, make([]byte, 120)...)
	b.i32(0, 0, nodes)
	return b
}

func (b *builder) i32(values ...int) *builder {
	for _, v := range values {
		b.b = binary.LittleEndian.AppendUint32(b.b, uint32(v))
	}
	return b
}

func (b *builder) text(s string) *builder {
	b.i32(len(s))
	b.b = append(b.b, s...)
	return b
}

// node writes the head of a node that has so many params besides #name and #op.
func (b *builder) node(name, op string, params int) *builder {
	return b.i32(2+params).string("#name", name).string("#op", op)
}

func (b *builder) string(param, value string) *builder {
	b.text(param).i32(1)
	b.b = append(b.b, 13)
	return b.i32(1).text(value)
}

func (b *builder) ints(param string, values ...int) *builder {
	b.text(param).i32(1)
	b.b = append(b.b, 5)
	return b.i32(1, len(values)).i32(values...)
}

// tensor writes a field: its number of bytes is up to the caller.
func (b *builder) tensor(dtype uint8, bytes int, shape ...int) *builder {
	b.b = append(b.b, dtype)
	b.i32(len(shape)).i32(shape...)
	b.b = append(b.b, make([]byte, bytes)...)
	b.memory += bytes
	return b
}

func (b *builder) param(name string, fields int) *builder { return b.text(name).i32(fields) }

func (b *builder) inputs(nodes ...int) *builder { return b.i32(len(nodes)).i32(nodes...) }

func (b *builder) in() layout.Bytes { return b.b }

// network is a module as TenniS's Python writes it: nodes before their inputs, every
// weight a node of its own.
func network(blocks, channels int) *builder {
	const each = 7
	b := build(blocks*each + 1)
	for i := range blocks {
		at, name := i*each, fmt.Sprintf("stage%d/unit%d", i/8, i%8)
		b.node(name+"/relu", "relu", 0).inputs(at + 1)
		b.node(name+"/add", "add", 0).inputs(at+2, at+each)
		b.node(name+"/bias", "add_bias", 1).param("dim", 1).tensor(5, 4).inputs(at+3, at+5)
		b.node(name+"/conv", "conv2d", 5).
			param("padding", 1).tensor(5, 32, 4, 2).
			param("format", 1).tensor(13, 4, 4).
			param("padding_value", 1).tensor(11, 8).
			param("stride", 1).tensor(5, 16, 4).
			param("dilation", 1).tensor(5, 16, 4).
			inputs(at+4, at+6)
		b.node(name+"/identity", "pad", 0).inputs(at + each)
		b.node("_const_"+name+"/bias_bias", "<const>", 1).param("value", 1).tensor(10, 4*channels, channels).inputs()
		b.node("_const_"+name+"/conv_weights", "<const>", 1).param("value", 1).tensor(10, 36*channels*channels, channels, channels, 3, 3).inputs()
	}
	b.i32(4).string("#name", "data").string("#op", "<param>").ints("#shape", -1, 3, 224, 224).ints("#dtype", 10).inputs()
	return b
}
