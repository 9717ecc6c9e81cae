package apr2

import (
	"encoding/json"
	"math"

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
	b, err := layout.LimitedRegion(in, layout.APR2, atMetadataSize, "metadata_size", off, n, f.lim.HeaderBytes)
	if err != nil {
		return nil, err
	}
	md, err := jsontext.Parse(b, layout.APR2, off, "metadata", f.lim)
	if err != nil {
		return nil, err
	}
	_, stated := md.Get(encryptionKey)
	if err := f.Header.checkEncryption(stated); err != nil {
		return nil, err
	}
	return md, nil
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
	at := uint64(f.Header.MetadataOffset)
	object := func(field, key string) (o layout.Metadata, err error) { // a missing one is empty
		v, ok := md.Get("quantization", key)
		if o, isObject := v.(layout.Metadata); isObject || !ok {
			return o, nil
		}
		return nil, errorf(at, field, layout.ErrInvalid, "not an object")
	}
	scales, err := object(scalesField, "scales")
	if err != nil {
		return nil, err
	}
	zeros, err := object(zerosField, "zero_points")
	if err != nil {
		return nil, err
	}
	if n := len(scales); n > maxScales {
		return nil, errorf(at, scalesField, layout.ErrLimit, "%d scales, more than %d", n, maxScales)
	}
	quants := make(map[string]layout.Quant, len(scales))
	for name, v := range scales.All() {
		scale, ok := layout.As[float32](v)
		if x := float64(scale); !ok || x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, errorf(at, scalesField, layout.ErrInvalid, "%s is not a finite binary32 other than 0", quoteJSON(v)).OfTensor([]byte(name))
		}
		quants[name] = layout.Quant{Scale: scale}
	}
	for name, v := range zeros.All() {
		q, scaled := quants[name]
		zero, ok := layout.As[int64](v)
		if !scaled || !ok {
			return nil, errorf(at, zerosField, layout.ErrInvalid, "%s is not an integer of 64 bits, or the tensor has no scale", quoteJSON(v)).OfTensor([]byte(name))
		}
		q.Zero = zero
		quants[name] = q
	}
	return quants, nil
}

// quoteJSON returns a metadata value as JSON, in the form in which errors show it.
func quoteJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte(err.Error())
	}
	return layout.Quote(b)
}

// Config returns the object architecture of md.
func (f *File) Config(md layout.Metadata) layout.Metadata {
	config, _ := layout.Get[layout.Metadata](md, "architecture")
	return config
}

// CarriedPrefix begins the keys of another format's metadata that hold what was APR2 metadata, as JSON, before a
// conversion.
const CarriedPrefix = "apr2."

// Carried reads the objects that md, the metadata of a file of format f, carries under these keys. It leaves out objects
// that are missing or no text. One longer than limit bytes is layout.ErrLimit.
func Carried(md layout.Metadata, f layout.Format, limit int, lim layout.Limits, keys ...string) (objects layout.Metadata, err error) {
	for _, key := range keys {
		v, _ := md.Get(CarriedPrefix + key)
		text, ok := v.(string)
		if !ok {
			continue
		}
		if len(text) > limit {
			return nil, layout.Errorf(f, 0, "metadata", layout.ErrLimit, "%s of %d bytes, more than %d", CarriedPrefix+key, len(text), limit)
		}
		object, err := jsontext.Parse([]byte(text), f, 0, CarriedPrefix+key, lim)
		if err != nil {
			return nil, err
		}
		objects.Set(key, object)
	}
	return objects, nil
}
