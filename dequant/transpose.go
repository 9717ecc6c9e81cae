package dequant

import "encoding/binary"

// A transposer turns a tile of 32-bit words around: rows × columns words, srcStride bytes from one
// row to the next, become rows of codes in the order of elements, dstStride bytes apart.
//
//   - words makes of each column a row of its words.
//   - nibbles makes of each column eight rows of its nibbles, which awqOrder sorts. The first
//     element is in the lower nibble. Eight rows make four bytes.
//
// Kernels take multiples of eight of rows and columns. They keep to kernel's contract: not a byte
// outside the tile is read or written.
type transposer struct {
	words, nibbles func(dst []byte, dstStride int, src []byte, srcStride, rows, columns int)
}

// awqOrder[k] is the place of column k among the nibbles of AutoAWQ's words.
var awqOrder = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

// transposeWords copies word by word.
func transposeWords(dst []byte, dstStride int, src []byte, srcStride, rows, columns int) {
	for c := range columns {
		out, in := dst[c*dstStride:][:4*rows], src[4*c:]
		for r := range rows {
			copy(out[4*r:][:4], in[r*srcStride:][:4])
		}
	}
}

// transposeNibbles swaps halves of words between rows four apart, then
// bytes between rows two apart, then nibbles between neighbours.
func transposeNibbles(dst []byte, dstStride int, src []byte, srcStride, rows, columns int) {
	for r := 0; r < rows; r += 8 {
		for c := range columns {
			var w [8]uint32
			for i := range min(8, rows-r) {
				w[i] = binary.LittleEndian.Uint32(src[(r+i)*srcStride+4*c:])
			}
			for i := range 4 {
				w[i], w[i+4] = w[i]&0xffff|w[i+4]<<16, w[i]>>16|w[i+4]&0xffff0000
			}
			for _, i := range [4]int{0, 1, 4, 5} {
				w[i], w[i+2] = w[i]&0x00ff00ff|w[i+2]&0x00ff00ff<<8, w[i]>>8&0x00ff00ff|w[i+2]&0xff00ff00
			}
			for i := 0; i < 8; i += 2 {
				w[i], w[i+1] = w[i]&0x0f0f0f0f|w[i+1]&0x0f0f0f0f<<4, w[i]>>4&0x0f0f0f0f|w[i+1]&0xf0f0f0f0
			}
			for k, at := range awqOrder {
				binary.LittleEndian.PutUint32(dst[(8*c+k)*dstStride+r/2:], w[at])
			}
		}
	}
}

// Transpose writes src, a matrix of rows × cols values, to dst as its columns: the scales and zero
// points of AWQ and GPTQ, which are stored by group. Both slices hold rows × cols values.
func Transpose(dst, src []float32, rows, cols int) {
	const side = 16 // of squares whose cache lines stay near
	dst, src = dst[:rows*cols], src[:rows*cols]
	for r0 := 0; r0 < rows; r0 += side {
		for c0 := 0; c0 < cols; c0 += side {
			for c := c0; c < min(c0+side, cols); c++ {
				for r := r0; r < min(r0+side, rows); r++ {
					dst[c*rows+r] = src[r*cols+c]
				}
			}
		}
	}
}
