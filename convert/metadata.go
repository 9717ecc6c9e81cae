package convert

import (
	"encoding/json"
	"strconv"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// Metadata is the metadata that an APR2 file made from m has (APR-FORMAT-002, "Metadata
// Section"). What an APR2 file says is carried over as it is; the metadata of another
// format becomes one object under the name of that format, such as "safetensors". The keys
// that the specification requires are there in any case: apr_version, model_type and
// architecture. Scales that the source keeps for integer tensors are in quantization.scales
// and quantization.zero_points.
func Metadata(m *loader.Model) (layout.Metadata, error) {
	from, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	md := layout.Metadata{
		{Key: "apr_version", Value: "2.0.0"},
		{Key: "model_type", Value: "unknown"},
		{Key: "architecture", Value: layout.Metadata{}},
	}
	if m.Format() == layout.APR2 {
		for key, value := range from.All() {
			md.Set(key, value)
		}
	} else if len(from) > 0 {
		md.Set(m.Format().String(), from)
	}
	return md, addScales(&md, m)
}

// addScales writes down the scales that m's tensors have in their own index; those that an
// APR2 file has in its metadata are there already.
func addScales(md *layout.Metadata, m *loader.Model) error {
	var scales, zeros layout.Metadata
	for t := range m.Tensors() {
		q, scaled, err := t.Scale()
		if err != nil {
			return err
		}
		if !scaled {
			continue
		}
		scales = append(scales, layout.Entry{Key: t.Name(), Value: json.Number(strconv.FormatFloat(float64(q.Scale), 'g', -1, 32))})
		if q.Zero != 0 {
			zeros = append(zeros, layout.Entry{Key: t.Name(), Value: json.Number(strconv.FormatInt(q.Zero, 10))})
		}
	}
	if len(scales) == 0 {
		return nil
	}
	value, _ := md.Get("quantization")
	// A copy: the model's own metadata is not ours to change.
	old, _ := value.(layout.Metadata)
	quantization := append(layout.Metadata{}, old...)
	quantization.Set("scales", scales)
	if len(zeros) > 0 {
		quantization.Set("zero_points", zeros)
	}
	md.Set("quantization", quantization)
	return nil
}

// topLevel are the keys that the specification places at the top of the metadata.
var topLevel = map[string]bool{
	"apr_version": true, "model_type": true, "architecture": true,
	"vocab": true, "mel_filterbank": true, "mel_filterbank_shape": true,
	"tokenizer_config": true, "model_card": true, "quantization": true,
}

// MergeConfig merges a configuration, such as the config.json beside a Hugging Face model,
// into APR2 metadata. Keys that the specification places at the top level go there, with
// objects merged key by key; every other key describes the architecture and goes into that
// object. apr_version is the file's own and is not taken over.
func MergeConfig(md *layout.Metadata, config layout.Metadata) {
	for key, value := range config.All() {
		switch {
		case key == "apr_version":
		case topLevel[key]:
			mergeKey(md, key, value)
		default:
			mergeKey(md, "architecture", layout.Metadata{{Key: key, Value: value}})
		}
	}
}

// mergeKey sets key to value; where both are objects, value's keys are added to the old
// ones. The old object is left as it was: it may belong to an open model.
func mergeKey(md *layout.Metadata, key string, value any) {
	add, isObject := value.(layout.Metadata)
	old, _ := md.Get(key)
	if was, ok := old.(layout.Metadata); ok && isObject {
		merged := append(layout.Metadata{}, was...)
		for k, v := range add.All() {
			merged.Set(k, v)
		}
		value = merged
	}
	md.Set(key, value)
}
