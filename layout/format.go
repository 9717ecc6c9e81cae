package layout

// Format is the name of a family of model files, lower case, such as "gguf". The zero value is Unknown.
type Format string

// The names of the formats. Each format's package describes it by a FileFormat.
const (
	Unknown     Format = ""
	APR2        Format = "apr2"
	APR1        Format = "apr1"
	April       Format = "april"
	BW2L        Format = "bw2l"
	TSM         Format = "tsm"
	GGUF        Format = "gguf"
	SafeTensors Format = "safetensors"
	Manifest    Format = "manifest" // a JSON file that names the shards of a model
)

// String returns the name, or "unknown".
func (f Format) String() string {
	if f == Unknown {
		return "unknown"
	}
	return string(f)
}

// HeadBytes is how many bytes of a file FileFormat.Matches sees at most.
const HeadBytes = 64

// FileFormat describes how files of a format are called, recognised and decoded. Package formats
// lists them all.
type FileFormat struct {
	Name Format
	// Suffix ends the names of files by custom: lower case, such as ".gguf". It is "" for a format
	// that holds no tensors.
	Suffix string
	// Matches reports whether in is of the format, judging by head, its first bytes. A format of
	// one magic uses Magic.
	Matches func(in Input, head []byte) bool
	Decode  Decoder
}

// Magic returns a FileFormat's Matches for files that have magic at an offset.
func Magic(offset int, magic string) func(Input, []byte) bool {
	return func(_ Input, head []byte) bool { return HasMagic(head, offset, magic) }
}

// HasMagic reports whether head has magic at an offset.
func HasMagic(head []byte, offset int, magic string) bool {
	return len(head) >= offset+len(magic) && string(head[offset:offset+len(magic)]) == magic
}

// AsDecoder returns decode, which returns a type of its own, as a Decoder.
func AsDecoder[F File](decode func(Input, *Limits) (F, error)) Decoder {
	return func(in Input, lim *Limits) (File, error) {
		f, err := decode(in, lim)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}
