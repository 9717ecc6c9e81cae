package dequant

import "encoding/binary"

// A transposer transposes matrices of words of 32 bits. Strides are the bytes from one row to the next.
//
//   - words writes each column of src as a row of dst.
//   - nibbles writes each column of words in eight rows of src as one word in each of eight planes of dst. The word in
//     plane k has nibble awqOrder[k] of each of the eight words, the nibble of the first row lowest. planeStride is the bytes
//     from one plane to the next.
//
// Kernels take multiples of eight of rows and columns. They keep to kernel's contract: not a byte
// outside the matrices is read or written.
type transposer struct {
	words   func(dst []byte, dstStride int, src []byte, srcStride, rows, columns int)
	nibbles func(dst []byte, dstStride, planeStride int, src []byte, srcStride, rows, columns int)
}

// awqOrder[k] is the position of column k among the eight nibbles of AutoAWQ's words, the lowest being 0.
var awqOrder = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

// wordsGeneric writes each column of src, a matrix of words of 32 bits, as a row of dst. Strides are the bytes from
// one row to the next.
func wordsGeneric(dst []byte, dstStride int, src []byte, srcStride, rows, columns int) {
	for c := range columns {
		out, in := dst[c*dstStride:][:4*rows], src[4*c:]
		for r := range rows {
			copy(out[4*r:][:4], in[r*srcStride:][:4])
		}
	}
}

// nibblesGeneric writes eight rows of words of src as one row of words in each of eight planes of dst. The word in column c of
// plane k has nibble awqOrder[k] of the eight words in column c of src: the nibble of the first row is the lowest. srcStride
// and dstStride are the bytes from a row to the next, planeStride the bytes from a plane to the next. If rows is no multiple of
// eight, the rows that the last eight lack count as zeros.
//
// w has the eight words of a column. Three steps swap halves of words four apart in w, then bytes of words two apart, then
// nibbles of adjacent words. After them w[i] has nibble i of all eight words.
func nibblesGeneric(dst []byte, dstStride, planeStride int, src []byte, srcStride, rows, columns int) {
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
				w[i], w[i+2] = w[i]&0x00ff00ff|(w[i+2]&0x00ff00ff)<<8, (w[i]>>8)&0x00ff00ff|w[i+2]&0xff00ff00
			}
			for i := 0; i < 8; i += 2 {
				w[i], w[i+1] = w[i]&0x0f0f0f0f|(w[i+1]&0x0f0f0f0f)<<4, (w[i]>>4)&0x0f0f0f0f|w[i+1]&0xf0f0f0f0
			}
			for k, at := range awqOrder {
				binary.LittleEndian.PutUint32(dst[k*planeStride+r/8*dstStride+4*c:], w[at])
			}
		}
	}
}

// transposeWords writes each column of src as a row of dst. src is a matrix of rows × columns words of 32 bits. Strides are
// the bytes from one row to the next. The kernel takes multiples of eight rows and columns, and the portable loop the rest.
func transposeWords(dst []byte, dstStride int, src []byte, srcStride, rows, columns int) {
	r, c := rows&^7, columns&^7
	if r > 0 && c > 0 {
		active.transpose.words(dst, dstStride, src, srcStride, r, c)
	}
	if c < columns {
		wordsGeneric(dst[c*dstStride:], dstStride, src[4*c:], srcStride, rows, columns-c)
	}
	if r < rows && c > 0 {
		wordsGeneric(dst[4*r:], dstStride, src[r*srcStride:], srcStride, rows-r, c)
	}
}

// transposeNibbles does what nibblesGeneric does, with the same parameters. The kernel takes multiples of eight rows and
// columns, and nibblesGeneric the rest.
func transposeNibbles(dst []byte, dstStride, planeStride int, src []byte, srcStride, rows, columns int) {
	r, c := rows&^7, columns&^7
	if r > 0 && c > 0 {
		active.transpose.nibbles(dst, dstStride, planeStride, src, srcStride, r, c)
	}
	if c < columns {
		nibblesGeneric(dst[4*c:], dstStride, planeStride, src[4*c:], srcStride, rows, columns-c)
	}
	if r < rows && c > 0 {
		nibblesGeneric(dst[r/8*dstStride:], dstStride, planeStride, src[r*srcStride:], srcStride, rows-r, c)
	}
}

// permutedRows returns the portable permutedKernel for codes of the given number of bits. The kernel expands eight rows
// whose columns have groups in any order. Unlike other permutedKernels, it takes any number of columns. words has word 0 of
// tileRows rows, then word 1 of each row. scales and offsets have the numbers of group 0 for tileRows rows, then of group 1.
func permutedRows(bits int) permutedKernel {
	return func(dst []float32, stride int, words []byte, columns int, groups []int32, scales, offsets []float32) {
		for c := range columns {
			word, bit := words[c*bits/32*4*tileRows:], c*bits%32
			first := tileRows * int(groups[c]) // index of the group's scale for row 0
			for r := range 8 {
				q := binary.LittleEndian.Uint32(word[4*r:]) >> bit
				if bit+bits > 32 { // the code ends in the next word of the row
					q |= binary.LittleEndian.Uint32(word[4*(tileRows+r):]) << (32 - bit)
				}
				dst[r*stride+c] = (byteFloats[q&(1<<bits-1)] - offsets[first+r]) * scales[first+r]
			}
		}
	}
}

// Transpose writes the columns of src, a matrix of rows × cols values, as rows to dst. It serves scales and zero points of AWQ
// and GPTQ, which are stored by group. Both slices hold rows × cols values.
func Transpose(dst, src []float32, rows, cols int) { transpose(dst, rows, src, rows, cols) }

// transpose writes the columns of src, a matrix of rows × cols, as rows to dst. Rows of dst are stride values apart.
func transpose(dst []float32, stride int, src []float32, rows, cols int) {
	const side = 16 // squares of side × side values are copied at a time, so that their cache lines are reused
	src = src[:rows*cols]
	for r0 := 0; r0 < rows; r0 += side {
		for c0 := 0; c0 < cols; c0 += side {
			for c := c0; c < min(c0+side, cols); c++ {
				for r := r0; r < min(r0+side, rows); r++ {
					dst[c*stride+r] = src[r*cols+c]
				}
			}
		}
	}
}
