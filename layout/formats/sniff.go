package formats

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// foreign lists files that people take for models of a known format. The first match counts, so
// longer magics stand before their prefixes. ErrUnsupported marks models and their containers,
// ErrFormat everything else.
var foreign = []struct {
	offset int
	magic  string
	err    error
	what   string
}{
	{0, "APRN", layout.ErrUnsupported, "an APRN container (signed or encrypted by aprender), which holds no tensors to map"},
	{0, "APR!", layout.ErrUnsupported, "an APR! bundle of aprender, which holds no tensors to map"},
	{0, "APRT", layout.ErrUnsupported, "an APRT training state of aprender, which holds no tensors to map"},
	{0, "\x29\x09\x91\x19", layout.ErrUnsupported, "a TenniS .sta container, not the TSM module in it"},

	{0, "2RPA", layout.ErrUnsupported, "APR2 with its magic byte-swapped"},
	{0, "1RPA", layout.ErrUnsupported, "APR1 with its magic byte-swapped"},
	{0, "L2WB", layout.ErrUnsupported, "BW2L with its magic byte-swapped"},
	{0, "FUGG", layout.ErrUnsupported, "GGUF with its magic byte-swapped"},
	{4, "\x19\x91\x09\x29", layout.ErrUnsupported, "a big-endian TSM module"},

	// ggml's formats before GGUF. Their magics are little-endian numbers.
	{0, "lmgg", layout.ErrUnsupported, "a model in ggml's first format, which GGUF replaced"},
	{0, "fmgg", layout.ErrUnsupported, "a model in ggml's format ggmf, which GGUF replaced"},
	{0, "tjgg", layout.ErrUnsupported, "a model in ggml's format ggjt, which GGUF replaced"},
	{0, "algg", layout.ErrUnsupported, "an adapter in ggml's format ggla, which GGUF replaced"},
	{0, "ggml", layout.ErrUnsupported, "a big-endian model in ggml's first format, which GGUF replaced"},
	{0, "ggmf", layout.ErrUnsupported, "a big-endian model in ggml's format ggmf, which GGUF replaced"},
	{0, "ggjt", layout.ErrUnsupported, "a big-endian model in ggml's format ggjt, which GGUF replaced"},
	{0, "ggla", layout.ErrUnsupported, "a big-endian adapter in ggml's format ggla, which GGUF replaced"},

	{0, "PK\x03\x04", layout.ErrUnsupported, "a ZIP archive, as PyTorch's .pt, .pth and .bin, NumPy's .npz and Keras's .keras are"},
	{0, "\x80\x02", layout.ErrUnsupported, "a Python pickle, as old PyTorch files are"},
	{0, "\x80\x03", layout.ErrUnsupported, "a Python pickle"},
	{0, "\x80\x04", layout.ErrUnsupported, "a Python pickle"},
	{0, "\x80\x05", layout.ErrUnsupported, "a Python pickle"},
	{0, "\x89HDF\r\n\x1a\n", layout.ErrUnsupported, "an HDF5 file, as Keras's .h5 are"},
	{0, "\x93NUMPY", layout.ErrUnsupported, "a NumPy .npy file"},
	{4, "TFL3", layout.ErrUnsupported, "a TensorFlow Lite model"},
	{4, "ET12", layout.ErrUnsupported, "an ExecuTorch program"},
	{4, "PTMF", layout.ErrUnsupported, "a PyTorch Mobile module"},
	{0, "MZqFpD", layout.ErrUnsupported, "a llamafile executable, not the GGUF file in it"},

	{0, "\x1f\x8b", layout.ErrUnsupported, "compressed by gzip: decompress it first"},
	{0, "\x28\xb5\x2f\xfd", layout.ErrUnsupported, "compressed by zstd: decompress it first"},
	{0, "\xfd7zXZ\x00", layout.ErrUnsupported, "compressed by xz: decompress it first"},
	{0, "\x04\x22\x4d\x18", layout.ErrUnsupported, "compressed by lz4: decompress it first"},
	{0, "BZh", layout.ErrUnsupported, "compressed by bzip2: decompress it first"},
	{0, "7z\xbc\xaf\x27\x1c", layout.ErrUnsupported, "a 7-Zip archive"},

	{0, "version https://git-lfs", layout.ErrFormat, "a Git LFS pointer, not the file it stands for: run git lfs pull"},
	{0, "\xef\xbb\xbf", layout.ErrFormat, "a text with a byte order mark, which JSON does not allow"},
}

// pages lists how HTML and XML begin, in lower case and behind white space. Servers send them in place
// of the file.
var pages = []string{"<!doctype", "<html", "<head", "<?xml", "<error"}

// findFormat returns the first format that a file matches by its first bytes, at most layout.HeadBytes. It fails if there is none, or
// the file cannot be read. The error names the kinds of files that are often taken for models, and lists the formats.
func findFormat(in layout.Input) (*layout.FileFormat, error) {
	head, err := in.Slice(0, min(layout.HeadBytes, in.Size()))
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		if f.Matches(in, head) {
			return f, nil
		}
	}
	return nil, unknownFormat(head)
}

// unknownFormat returns the error for a file of no known format, which begins with head. It says what the file seems to be.
func unknownFormat(head []byte) error {
	refuse := func(sentinel error, reason string) error {
		known := strings.ReplaceAll(strings.Trim(fmt.Sprint(Names()), "[]"), " ", ", ")
		return layout.Errorf(layout.Unknown, 0, "magic", sentinel, "%s; known formats: %s", reason, known)
	}
	for _, f := range foreign {
		if layout.HasMagic(head, f.offset, f.magic) {
			return refuse(f.err, f.what)
		}
	}
	text := string(bytes.ToLower(bytes.TrimLeft(head, " \t\r\n")))
	for _, page := range pages {
		if strings.HasPrefix(text, page) {
			return refuse(layout.ErrFormat, "an HTML or XML page, perhaps a server's error message or its list of a folder")
		}
	}
	switch {
	case looksLikeONNX(head):
		return refuse(layout.ErrUnsupported, "what looks like an ONNX model, which is read only inside .april")
	case len(head) == 0:
		return refuse(layout.ErrFormat, "the file is empty")
	case len(head) > 8 && head[8] == '{':
		return refuse(layout.ErrFormat, fmt.Sprintf("a SafeTensors header of %d bytes would leave the file", binary.LittleEndian.Uint64(head)))
	}
	return refuse(layout.ErrFormat, fmt.Sprintf("the file starts with % x", head[:min(16, len(head))]))
}

// looksLikeONNX recognises a format without a magic by its protobuf fields: ir_version, at least 3 and
// yet one byte, then producer_name, graph or opset_import. Writers have one of the three next.
func looksLikeONNX(head []byte) bool {
	return len(head) > 2 && head[0] == 1<<3 && 3 <= head[1] && head[1] < 32 && strings.IndexByte("\x12\x3a\x42", head[2]) >= 0
}
