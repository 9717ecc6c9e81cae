package apr2

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// Metadata parses the metadata section. It is empty if metadata_size is 0. From minor version 1 on, a file that
// says how it is encrypted must have the flag Encrypted.
func (f *File) Metadata(in layout.Input) (layout.Metadata, error) {
	off, n := uint64(f.Header.MetadataOffset), uint64(f.Header.MetadataSize)
	if n == 0 {
		return layout.Metadata{}, nil
	}
	if n > f.lim.HeaderBytes {
		return nil, errorf(atMetadataSize, "metadata_size", layout.ErrLimit, "%d bytes, more than %d", n, f.lim.HeaderBytes)
	}
	b, err := layout.Region(in, layout.APR2, atMetadataOffset, "metadata_offset", off, n)
	if err != nil {
		return nil, err
	}
	md, err := jsontext.Parse(b, layout.APR2, off, "metadata", f.lim)
	if err == nil {
		err = f.checkEncryption(md)
	}
	if err != nil {
		return nil, err
	}
	return md, nil
}

// checkEncryption returns an error if md says how the file is encrypted and the file lacks the flag Encrypted.
func (f *File) checkEncryption(md layout.Metadata) error {
	if _, ok := md.Get(encryptionKey); ok && f.Encryption == nil && f.Header.Minor >= 1 {
		return errorf(uint64(f.Header.MetadataOffset), encryptionKey, layout.ErrInvalid, "such a key, but not the flag ENCRYPTED")
	}
	return nil
}

// maxScales bounds the memory of scales: each takes 80 bytes.
const maxScales = 1 << 18

const (
	scalesField = "quantization.scales"
	zerosField  = "quantization.zero_points"
)

// Scales reads quantization.scales and quantization.zero_points from the metadata.
// A scale is the binary32 that is nearest to its decimal, finite and not 0. A zero point
// is an integer, and belongs to a tensor that has a scale. Names of no tensor are
// accepted, because the tensors may be in other shards. More than 262,144 scales are layout.ErrLimit.
func (f *File) Scales(md layout.Metadata) (map[string]layout.Quant, error) {
	scales, err := f.scalesObject(md, scalesField, "scales")
	if err != nil {
		return nil, err
	}
	zeros, err := f.scalesObject(md, zerosField, "zero_points")
	if err != nil {
		return nil, err
	}
	if n := len(scales); n > maxScales {
		return nil, errorf(uint64(f.Header.MetadataOffset), scalesField, layout.ErrLimit, "%d scales, more than %d", n, maxScales)
	}
	quants := make(map[string]layout.Quant, len(scales))
	for name, v := range scales.All() {
		scale, ok := parseScale(v)
		if !ok {
			return nil, f.errScale(scalesField, name, v, "a finite binary32 other than 0")
		}
		quants[name] = layout.Quant{Scale: scale}
	}
	for name, v := range zeros.All() {
		q, scaled := quants[name]
		if !scaled {
			return nil, f.errScale(zerosField, name, v, "expected: the tensor has no scale")
		}
		zero, ok := parseZero(v)
		if !ok {
			return nil, f.errScale(zerosField, name, v, "an integer of 64 bits")
		}
		q.Zero = zero
		quants[name] = q
	}
	return quants, nil
}

// Config returns the object architecture of md.
func (f *File) Config(md layout.Metadata) layout.Metadata {
	v, _ := md.Get("architecture")
	config, _ := v.(layout.Metadata)
	return config
}

// scalesObject returns the object called key in md's quantization. A missing one is empty.
func (f *File) scalesObject(md layout.Metadata, field, key string) (layout.Metadata, error) {
	v, ok := md.Get("quantization", key)
	if !ok {
		return nil, nil
	}
	obj, ok := v.(layout.Metadata)
	if !ok {
		return nil, errorf(uint64(f.Header.MetadataOffset), field, layout.ErrInvalid, "not an object")
	}
	return obj, nil
}

// parseScale returns the scale that v is. It reports false for anything but a number that is finite and not 0 in
// binary32.
func parseScale(v any) (float32, bool) {
	n, _ := v.(json.Number)
	x, err := strconv.ParseFloat(string(n), 32)
	return float32(x), err == nil && x != 0 && !math.IsInf(x, 0)
}

// parseZero returns the zero point that v is. It reports false for anything but an integer of 64 bits.
func parseZero(v any) (int64, bool) {
	n, _ := v.(json.Number)
	z, err := strconv.ParseInt(string(n), 10, 64)
	return z, err == nil
}

// errScale returns the error that the value v of a tensor, in the object field of the metadata, is not as wanted.
func (f *File) errScale(field, tensor string, v any, want string) error {
	return errorf(uint64(f.Header.MetadataOffset), field, layout.ErrInvalid, "tensor %s: %s is not %s",
		layout.Quote([]byte(tensor)), layout.Quote(asJSON(v)), want)
}

// asJSON returns a metadata value as JSON, or the error instead.
func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return b
}
