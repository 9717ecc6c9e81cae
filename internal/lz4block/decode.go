package lz4block

import "github.com/pierrec/lz4/v4"

//go:generate go run -C ../../dequant/_asm ./lz4 -out ../../internal/lz4block/decode_amd64.s -stubs ../../internal/lz4block/decode_stub_amd64.go -pkg lz4block

// A Decoder expands blocks. The zero value is ready for use.
//
// The blocks may be mapped, lost and changed at any moment: see "Assembly over a mapping" in
// package mmapio. The library's assembly calls from frames without a pointer map, so it gets a
// copy of each block. decodeAVX2 calls nothing, and expands what is mapped.
type Decoder struct {
	copied []byte
}

// Decode expands the LZ4 block src into dst, which it must fill to the last byte with src
// used up. It reports whether it did; if not, the content of dst is unspecified.
func (d *Decoder) Decode(dst, src []byte) bool {
	if hasAVX2 {
		return decodeAVX2(dst, src)
	}
	return d.decodeCopy(dst, src)
}

// decodeCopy expands a copy of src by the library, as Decode does.
func (d *Decoder) decodeCopy(dst, src []byte) bool {
	if len(src) > MaxStored {
		return false
	}
	if d.copied == nil {
		d.copied = make([]byte, MaxStored)
	}
	n, err := lz4.UncompressBlock(d.copied[:copy(d.copied, src)], dst)
	return err == nil && n == len(dst)
}
