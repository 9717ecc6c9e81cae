package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
)

// sniffBytes is how much of a file Sniff reads: aprender's header of 64 bytes, which its
// checksum tells from everything else, is the longest that has to be seen.
const sniffBytes = 64

// magics are the first bytes that name a format. Several layouts call themselves APR1
// and APR2; the decoders of these tell them apart by structure.
var magics = []struct {
	format Format
	offset int
	magic  string
}{
	{APR2, 0, "APR2"},
	{APR1, 0, "APR1"},
	{April, 0, "APRILMDL"},
	{BW2L, 0, "BW2L"},
	{GGUF, 0, "GGUF"},
	{TSM, 4, "\x29\x09\x91\x19"},
}

// foreign are the files that people hand to a loader and that none of the formats is. The
// first match counts, so longer magics stand before their prefixes. ErrUnsupported marks
// models and their containers, ErrFormat what is no model at all.
var foreign = []struct {
	offset int
	magic  string
	err    error
	what   string
}{
	{0, "APRN", ErrUnsupported, "an APRN container (signed or encrypted by aprender), which holds no tensors to map"},
	{0, "APR!", ErrUnsupported, "an APR! bundle of aprender, which holds no tensors to map"},
	{0, "APRT", ErrUnsupported, "an APRT training state of aprender, which holds no tensors to map"},
	{0, "\x29\x09\x91\x19", ErrUnsupported, "a TenniS .sta container, not the TSM module in it"},

	{0, "2RPA", ErrUnsupported, "APR2 with its magic byte-swapped"},
	{0, "1RPA", ErrUnsupported, "APR1 with its magic byte-swapped"},
	{0, "L2WB", ErrUnsupported, "BW2L with its magic byte-swapped"},
	{0, "FUGG", ErrUnsupported, "GGUF with its magic byte-swapped"},
	{4, "\x19\x91\x09\x29", ErrUnsupported, "a big-endian TSM module"},

	// ggml's formats before GGUF. Their magics are little-endian numbers.
	{0, "lmgg", ErrUnsupported, "a model in ggml's first format, which GGUF replaced"},
	{0, "fmgg", ErrUnsupported, "a model in ggml's format ggmf, which GGUF replaced"},
	{0, "tjgg", ErrUnsupported, "a model in ggml's format ggjt, which GGUF replaced"},
	{0, "algg", ErrUnsupported, "an adapter in ggml's format ggla, which GGUF replaced"},
	{0, "ggml", ErrUnsupported, "a big-endian model in ggml's first format, which GGUF replaced"},
	{0, "ggmf", ErrUnsupported, "a big-endian model in ggml's format ggmf, which GGUF replaced"},
	{0, "ggjt", ErrUnsupported, "a big-endian model in ggml's format ggjt, which GGUF replaced"},
	{0, "ggla", ErrUnsupported, "a big-endian adapter in ggml's format ggla, which GGUF replaced"},

	{0, "PK\x03\x04", ErrUnsupported, "a ZIP archive, as PyTorch's .pt, .pth and .bin, NumPy's .npz and Keras's .keras are"},
	{0, "\x80\x02", ErrUnsupported, "a Python pickle, as old PyTorch files are"},
	{0, "\x80\x03", ErrUnsupported, "a Python pickle"},
	{0, "\x80\x04", ErrUnsupported, "a Python pickle"},
	{0, "\x80\x05", ErrUnsupported, "a Python pickle"},
	{0, "\x89HDF\r\n\x1a\n", ErrUnsupported, "an HDF5 file, as Keras's .h5 are"},
	{0, "\x93NUMPY", ErrUnsupported, "a NumPy .npy file"},
	{4, "TFL3", ErrUnsupported, "a TensorFlow Lite model"},
	{4, "ET12", ErrUnsupported, "an ExecuTorch program"},
	{4, "PTMF", ErrUnsupported, "a PyTorch Mobile module"},
	{0, "MZqFpD", ErrUnsupported, "a llamafile executable, not the GGUF file in it"},

	{0, "\x1f\x8b", ErrUnsupported, "compressed by gzip: decompress it first"},
	{0, "\x28\xb5\x2f\xfd", ErrUnsupported, "compressed by zstd: decompress it first"},
	{0, "\xfd7zXZ\x00", ErrUnsupported, "compressed by xz: decompress it first"},
	{0, "\x04\x22\x4d\x18", ErrUnsupported, "compressed by lz4: decompress it first"},
	{0, "BZh", ErrUnsupported, "compressed by bzip2: decompress it first"},
	{0, "7z\xbc\xaf\x27\x1c", ErrUnsupported, "a 7-Zip archive"},

	{0, "version https://git-lfs", ErrFormat, "a Git LFS pointer, not the file it stands for: run git lfs pull"},
	{0, "\xef\xbb\xbf", ErrFormat, "a text with a byte order mark, which JSON does not allow"},
}

// pages are how HTML and XML begin, in lower case and behind white space: what a server sent
// in place of the file.
var pages = []string{"<!doctype", "<html", "<head", "<?xml", "<error"}

// Sniff names the format of a file from its first bytes, at most 64 of them. The error says
// what was seen, by name where it is a kind of file that is often taken for a model, and
// which formats there are.
func Sniff(in Input) (Format, error) {
	head, err := in.Slice(0, min(sniffBytes, in.Size()))
	if err != nil {
		return Unknown, err
	}
	for _, m := range magics {
		if hasAt(head, m.offset, m.magic) {
			return m.format, nil
		}
	}
	if f := sniffAPR0(head); f != Unknown {
		return f, nil
	}
	if looksLikeSafeTensors(head, in.Size()) {
		return SafeTensors, nil
	}
	if text := trimSpace(head); len(text) > 0 && text[0] == '{' {
		return Manifest, nil
	}
	return Unknown, unknownFormat(head)
}

func hasAt(head []byte, offset int, magic string) bool {
	return len(head) >= offset+len(magic) && string(head[offset:offset+len(magic)]) == magic
}

func trimSpace(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// sniffAPR0 tells the layouts apart whose magic is "APR\0"; all are aprender's. The magic alone
// would not do: with four zeros it is a SafeTensors header of 5,394,497 bytes.
func sniffAPR0(head []byte) Format {
	switch {
	case !hasAt(head, 0, "APR\x00"):
		return Unknown
	case isHeader64(head):
		return APR2
	case hasAt(head, 4, "\x01"), hasAt(head, 4, "\x02") && hasAt(head, 9, "\x28\xb5\x2f\xfd"):
		return APR2 // a compressed container, which apr2 refuses by name
	case hasAt(head, 4, "\x02\x00"):
		return APR1 // the last of its kind
	case hasAt(head, 4, "\x02"):
		return APR2
	}
	return Unknown
}

// isHeader64 knows the 64-byte header by its checksum, and a damaged one by its metadata, which
// stands right behind it. What the late APR1 has there are two numbers, never 64 and 0.
func isHeader64(head []byte) bool {
	if len(head) < 64 {
		return false
	}
	crc := crc32.Update(crc32.ChecksumIEEE(head[:40]), crc32.IEEETable, head[44:64])
	return crc == binary.LittleEndian.Uint32(head[40:]) || hasAt(head, 4, "\x02\x00") && binary.LittleEndian.Uint64(head[12:]) == 64
}

// looksLikeSafeTensors knows a format without a magic: a header length that fits the
// file, then a JSON object.
func looksLikeSafeTensors(head []byte, size uint64) bool {
	return len(head) > 8 && head[8] == '{' && Within(8, binary.LittleEndian.Uint64(head), size)
}

// looksLikeONNX knows another: the protobuf fields ir_version, at least 3 and yet one byte,
// and then producer_name, graph or opset_import, the next that writers have.
func looksLikeONNX(head []byte) bool {
	return len(head) > 2 && head[0] == 1<<3 && 3 <= head[1] && head[1] < 32 && strings.IndexByte("\x12\x3a\x42", head[2]) >= 0
}

var knownFormats = "known formats: " + strings.Join(formatNames[APR2:Manifest], ", ")

func unknownFormat(head []byte) error {
	for _, f := range foreign {
		if hasAt(head, f.offset, f.magic) {
			return Errorf(Unknown, 0, "magic", f.err, "%s; %s", f.what, knownFormats)
		}
	}
	text := string(bytes.ToLower(trimSpace(head)))
	for _, page := range pages {
		if strings.HasPrefix(text, page) {
			return Errorf(Unknown, 0, "magic", ErrFormat, "an HTML or XML page, perhaps a server's error message; %s", knownFormats)
		}
	}
	if looksLikeONNX(head) {
		return Errorf(Unknown, 0, "magic", ErrUnsupported, "what looks like an ONNX model, which is read only inside .april; %s", knownFormats)
	}
	reason := fmt.Sprintf("the file starts with % x", head[:min(16, len(head))])
	if len(head) == 0 {
		reason = "the file is empty"
	} else if len(head) > 8 && head[8] == '{' {
		reason = fmt.Sprintf("a SafeTensors header of %d bytes would leave the file", binary.LittleEndian.Uint64(head))
	}
	return Errorf(Unknown, 0, "magic", ErrFormat, "%s; %s", reason, knownFormats)
}
