package april

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tensormap/tensormap/layout"
)

var le = binary.LittleEndian

// model is what an .april file is put together from, field by field. Its fields are what
// assemble writes, right or wrong.
type model struct {
	magic      string
	version    uint32
	headerSize uint64
	language   string
	name       string
	desc       string
	kind       uint32
	count      uint64
	params     []byte
	networks   [][]byte
	tail       string
}

// good is a model in order, with the networks given.
func good(networks ...[]byte) *model {
	m := &model{magic: "APRILMDL", version: 1, language: "en-us\x00\x00\x00", name: "a name", desc: "it does", kind: 1, count: 3,
		params: goodParams("<blk>", " a", "é"), networks: networks}
	for len(m.networks) < 3 {
		m.networks = append(m.networks, onnx())
	}
	m.headerSize = uint64(8 + 8 + len(m.name) + 8 + len(m.desc) + 4 + 16 + 8 + 16*len(m.networks))
	return m
}

// assemble writes the networks behind the header, and the parameters behind these.
func (m *model) assemble() layout.Bytes {
	b := append([]byte(m.magic), le.AppendUint32(nil, m.version)...)
	b = le.AppendUint64(b, m.headerSize)
	b = append(b, m.language...)
	for _, s := range []string{m.name, m.desc} {
		b = append(le.AppendUint64(b, uint64(len(s))), s...)
	}
	b = le.AppendUint32(b, m.kind)
	at := uint64(len(b) + 16 + 8 + 16*len(m.networks))
	var entries []byte
	for _, n := range m.networks {
		entries = le.AppendUint64(le.AppendUint64(entries, at), uint64(len(n)))
		at += uint64(len(n))
	}
	b = le.AppendUint64(le.AppendUint64(b, at), uint64(len(m.params)))
	b = append(le.AppendUint64(b, m.count), entries...)
	for _, n := range m.networks {
		b = append(b, n...)
	}
	return append(append(b, m.params...), m.tail...)
}

// network is where assemble puts network i.
func (m *model) network(i int) int {
	at := 20 + int(m.headerSize)
	for _, n := range m.networks[:i] {
		at += len(n)
	}
	return at
}

func goodParams(tokens ...string) []byte {
	return params13([]int32{1, 9, 4, 80, 16000, 10, 25, 1, 20, 0, 0, int32(len(tokens)), 0}, tokens...)
}

func params13(numbers []int32, tokens ...string) []byte {
	b := []byte("PARAMS\x00\x00")
	for _, v := range numbers {
		b = le.AppendUint32(b, uint32(v))
	}
	for _, t := range tokens {
		b = append(le.AppendUint32(b, uint32(len(t))), t...)
	}
	return b
}

// onnx is a ModelProto whose graph has the initializers given.
func onnx(initializers ...[]byte) []byte {
	var g []byte
	for _, t := range initializers {
		g = appendRecord(g, 5, t)
	}
	return modelProto(g)
}

func modelProto(graph []byte) []byte {
	return appendNumber(appendRecord(appendNumber(nil, 1, 8), 7, graph), 5, 1)
}

// tensorMessage is a TensorProto but for its elements.
func tensorMessage(name string, dataType int32, dims ...int64) []byte {
	var b []byte
	for _, d := range dims {
		b = appendNumber(b, 1, uint64(d))
	}
	return appendRecord(appendNumber(b, 2, uint64(dataType)), 8, []byte(name))
}

// rawTensor is a TensorProto with its elements in raw_data.
func rawTensor(name string, dataType int32, raw []byte, dims ...int64) []byte {
	return appendRecord(tensorMessage(name, dataType, dims...), 9, raw)
}

// numberTensor is a TensorProto with its elements as packed varints.
func numberTensor(name string, dataType int32, field protowire.Number, values []int64, dims ...int64) []byte {
	return appendRecord(tensorMessage(name, dataType, dims...), field, varints(values...))
}

func varints(values ...int64) (b []byte) {
	for _, v := range values {
		b = protowire.AppendVarint(b, uint64(v))
	}
	return b
}

func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendRecord(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func floats(values ...float32) (b []byte) {
	for _, v := range values {
		b = le.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
