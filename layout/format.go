package layout

import (
	"fmt"
	"iter"
)

// Format is a family of model files. The zero value is Unknown.
type Format uint8

// The formats that Sniff tells apart.
const (
	Unknown Format = iota
	APR2
	APR1
	April
	BW2L
	TSM
	GGUF
	SafeTensors
	Manifest // a JSON file that names the shards of a model

	numFormats
)

var formatNames = [numFormats]string{
	"unknown", "apr2", "apr1", "april", "bw2l", "tsm", "gguf", "safetensors", "manifest",
}

var formatSuffixes = [numFormats]string{
	APR2: ".apr", APR1: ".apr", April: ".april", BW2L: ".bw2l", TSM: ".tsm", GGUF: ".gguf", SafeTensors: ".safetensors",
}

// Formats are those that files of tensors are in.
func Formats() iter.Seq[Format] {
	return func(yield func(Format) bool) {
		for f := Unknown + 1; f < Manifest && yield(f); f++ {
		}
	}
}

// String is the format's name as inspect prints it: lower case, such as "gguf".
func (f Format) String() string {
	if f >= numFormats {
		return fmt.Sprintf("Format(%d)", uint8(f))
	}
	return formatNames[f]
}

// Suffix is how names of such files end, by custom: lower case, such as ".gguf". It is "" where
// there is no custom.
func (f Format) Suffix() string {
	if f >= numFormats {
		return ""
	}
	return formatSuffixes[f]
}

// MarshalText is String, so that a Format in JSON is its name.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }
