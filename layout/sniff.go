package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// magics are the first bytes that name a format. Several layouts call themselves APR1
// and APR2; the decoders of these tell them apart by structure.
var magics = []struct {
	format Format
	offset uint64
	magic  string
}{
	{APR2, 0, "APR2"},
	// With the version: APR\0 and four zeros are a SafeTensors header of 5,394,497 bytes.
	{APR2, 0, "APR\x00\x01"},
	{APR2, 0, "APR\x00\x02"},
	{APR1, 0, "APR1"},
	{April, 0, "APRILMDL"},
	{BW2L, 0, "BW2L"},
	{GGUF, 0, "GGUF"},
	{TSM, 4, "\x29\x09\x91\x19"},
}

// notTensors are magics of aprender's files that hold no tensors to read.
var notTensors = map[string]string{
	"APRN": "an APRN container (signed or encrypted by aprender)",
	"APR!": "an APR! bundle of aprender",
	"APRT": "an APRT training state of aprender",
}

// Sniff names the format of a file from its first bytes. It reads at most 16 bytes.
// The error says what was seen and which formats there are.
func Sniff(in Input) (Format, error) {
	head, err := in.Slice(0, min(16, in.Size()))
	if err != nil {
		return Unknown, err
	}
	for _, m := range magics {
		if end := m.offset + uint64(len(m.magic)); uint64(len(head)) >= end && string(head[m.offset:end]) == m.magic {
			return m.format, nil
		}
	}
	if looksLikeSafeTensors(head, in.Size()) {
		return SafeTensors, nil
	}
	if text := bytes.TrimLeft(head, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		return Manifest, nil
	}
	return Unknown, unknownFormat(head)
}

// looksLikeSafeTensors knows a format without a magic: a header length that fits the
// file, then a JSON object.
func looksLikeSafeTensors(head []byte, size uint64) bool {
	return len(head) > 8 && head[8] == '{' && Within(8, binary.LittleEndian.Uint64(head), size)
}

func unknownFormat(head []byte) error {
	const known = "known formats: apr2, apr1, april, bw2l, tsm, gguf, safetensors"
	reason := fmt.Sprintf("the file starts with % x", head)
	if len(head) == 0 {
		reason = "the file is empty"
	} else if what, ok := notTensors[string(head[:min(4, len(head))])]; ok {
		return Errorf(Unknown, 0, "magic", ErrUnsupported, "%s, which holds no tensors to map", what)
	} else if len(head) > 8 && head[8] == '{' {
		reason = fmt.Sprintf("a SafeTensors header of %d bytes would leave the file", binary.LittleEndian.Uint64(head))
	}
	return Errorf(Unknown, 0, "magic", ErrFormat, "%s; %s", reason, known)
}
