package apr1

import (
	"hash/crc32"
	"math"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// assemble is a file of tensors that all have one of elementTypes and the scale
// 0.5, but without their bytes and what comes behind these.
func assemble(flags Flags, tensors ...layout.Tensor) layouttest.Sparse {
	b := append([]byte(magic), 1, 0, 1, 0, 0)
	for q, is := range elementTypes {
		if is == tensors[0].DType {
			b[atQuantization] = byte(q)
		}
	}
	b = append(le.AppendUint16(b, uint16(len(tensors))), byte(flags))
	b = append(b, make([]byte, headSize-atDimensions)...)
	data := uint64(0)
	for _, t := range tensors {
		e := make([]byte, entrySize)
		n, _ := layout.Elements(t.Shape)
		size, _ := t.DType.Size(t.Shape)
		copy(e, t.Name)
		le.PutUint64(e[inOffset:], data)
		le.PutUint64(e[inSize:], size)
		le.PutUint64(e[inElements:], n)
		for i, dim := range t.Shape {
			le.PutUint32(e[inShape+4*i:], uint32(dim))
		}
		e[inDims] = byte(len(t.Shape))
		b, data = append(b, e...), data+size
	}
	if tensors[0].DType == layout.I8 {
		for range tensors {
			b = le.AppendUint32(b, math.Float32bits(0.5))
		}
	}
	return layouttest.Sparse{Head: b, Whole: uint64(len(b)) + data + crcSize}
}

type vocabulary struct {
	Tokens []string
	Merges [][2]string
}

// withVocabulary is a file of one empty tensor and a vocabulary.
func withVocabulary(v *vocabulary) layout.Bytes {
	b := []byte(assemble(HasVocab, layout.Tensor{Name: []byte("a"), DType: layout.F32, Shape: []int{0}}).Head)
	at := len(b)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, uint32(len(v.Tokens)))
	b = le.AppendUint32(b, uint32(len(v.Merges)))
	add := func(s string) { b = append(le.AppendUint16(b, uint16(len(s))), s...) }
	for _, s := range v.Tokens {
		add(s)
	}
	for _, pair := range v.Merges {
		add(pair[0])
		add(pair[1])
	}
	le.PutUint32(b[at:], uint32(len(b)-at-sizeSize))
	return le.AppendUint32(b, crc32.ChecksumIEEE(b))
}
