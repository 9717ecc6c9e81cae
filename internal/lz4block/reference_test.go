package lz4block

import "bytes"

// reference expands an LZ4 block byte by byte, after the "LZ4 Block Format Description", into
// at most size bytes; ok is false for anything malformed. As decoders do, it lets a block end
// with a match, though compressors must end one with literals.
func reference(src []byte, size int) (out []byte, ok bool) {
	for len(src) > 0 {
		token := src[0]
		literals, rest, ok := extended(int(token>>4), src[1:], size)
		if !ok || literals > len(rest) || literals > size-len(out) {
			return nil, false
		}
		out = append(out, rest[:literals]...)
		src = rest[literals:]
		if len(src) == 0 {
			return out, token&15 == 0 // the last sequence has no match
		}
		if len(src) < 2 {
			return nil, false
		}
		distance := int(src[0]) | int(src[1])<<8
		match, rest, ok := extended(int(token&15), src[2:], size)
		match += 4
		if !ok || distance == 0 || distance > len(out) || match > size-len(out) {
			return nil, false
		}
		for range match {
			out = append(out, out[len(out)-distance])
		}
		src = rest
	}
	return out, len(out) > 0
}

// extended reads what follows a length of 15.
func extended(n int, src []byte, most int) (int, []byte, bool) {
	if n < 15 {
		return n, src, true
	}
	for len(src) > 0 {
		b := src[0]
		src = src[1:]
		n += int(b)
		if b != 255 {
			return n, src, true
		}
		if n > most+255 {
			return 0, nil, false
		}
	}
	return 0, nil, false
}

// literals is data as a block without a match.
func literals(data []byte) []byte {
	n := len(data)
	if n < 15 {
		return append([]byte{byte(n << 4)}, data...)
	}
	b := append([]byte{15 << 4}, bytes.Repeat([]byte{255}, (n-15)/255)...)
	return append(append(b, byte((n-15)%255)), data...)
}
