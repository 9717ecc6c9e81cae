package convert

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// requiredMetadata returns the keys that every APR2 file must have (APR-FORMAT-002, "Metadata
// Section"), with the values for an unknown model.
func requiredMetadata() layout.Metadata {
	return layout.Metadata{
		{Key: "apr_version", Value: "2.0.0"},
		{Key: "model_type", Value: "unknown"},
		{Key: "architecture", Value: layout.Metadata{}},
	}
}

// topLevelKeys has the keys that the specification places at the top of the metadata, and true if the value is an
// object.
var topLevelKeys = map[string]bool{
	"apr_version": false, "model_type": false, "vocab": false, "mel_filterbank": false, "mel_filterbank_shape": false,
	"architecture": true, "tokenizer_config": true, "generation_config": true, "model_card": true, "quantization": true,
}

// MergeConfig merges a configuration, such as the config.json beside a Hugging Face model,
// into APR2 metadata. Keys that the specification places at the top level go there, with
// objects merged key by key; every other key describes the architecture and goes into that
// object. An architecture that is no object, such as the name of one, becomes an object with the key
// "name", whose value config may replace. It cannot replace apr_version.
//
// Objects in md are replaced, not modified: they may belong to an open model.
func MergeConfig(md *layout.Metadata, config layout.Metadata) {
	var top, architecture layout.Metadata
	for _, e := range config {
		_, isTop := topLevelKeys[e.Key]
		switch {
		case e.Key == "apr_version":
		case e.Key == "architecture":
			architecture = append(architecture, asArchitecture(e.Value)...)
		case isTop:
			old, _ := md.Get(e.Key)
			top = append(top, layout.Entry{Key: e.Key, Value: merged(old, e.Value)})
		default:
			architecture = append(architecture, e)
		}
	}
	if len(architecture) > 0 {
		old, _ := md.Get("architecture")
		md.Set("architecture", merged(asArchitecture(old), architecture))
	}
	md.Merge(top)
}

// asArchitecture returns v as the object that the specification wants under architecture. A value that is no object becomes
// an object with the key name. It returns nil for null.
func asArchitecture(v any) layout.Metadata {
	switch v := v.(type) {
	case nil:
		return nil
	case layout.Metadata:
		return v
	}
	return layout.Metadata{{Key: "name", Value: v}}
}

// withoutEncryption returns a copy of md without the entries signature and encryption, which describe how the source is
// signed and encrypted. Objects without an algorithm are a model's own and stay.
func withoutEncryption(md layout.Metadata) layout.Metadata {
	return slices.DeleteFunc(slices.Clone(md), func(e layout.Entry) bool {
		o, _ := e.Value.(layout.Metadata)
		_, hasAlgorithm := o.Get("algorithm")
		return hasAlgorithm && (e.Key == "signature" || e.Key == "encryption")
	})
}

// object returns the object that m has under key, or nil if there is none. The object belongs to m: clone it before a change.
func object(m layout.Metadata, key string) layout.Metadata {
	v, _ := m.Get(key)
	o, _ := v.(layout.Metadata)
	return o
}

// textAt returns the string that m has under key. With nested, key and nested are the keys on the way to the string, through
// objects in objects. It returns "" if there is no string.
func textAt(m layout.Metadata, key string, nested ...string) string {
	v, _ := m.Get(key, nested...)
	s, _ := v.(string)
	return s
}

// setObject sets key to o, or removes key if o is empty.
func setObject(m *layout.Metadata, key string, o layout.Metadata) {
	if len(o) > 0 {
		m.Set(key, o)
	} else {
		*m = slices.DeleteFunc(*m, func(e layout.Entry) bool { return e.Key == key })
	}
}

// without returns a copy of m that lacks keys.
func without(m layout.Metadata, keys ...string) layout.Metadata {
	return slices.DeleteFunc(slices.Clone(m), func(e layout.Entry) bool { return slices.Contains(keys, e.Key) })
}

// merged returns value if value or old is no object. Otherwise it returns a new object with the keys of both. For a key in
// both, the entry of value counts.
func merged(old, value any) any {
	add, isObject := value.(layout.Metadata)
	was, wasObject := old.(layout.Metadata)
	if !isObject || !wasObject {
		return value
	}
	both := slices.Clone(was)
	both.Merge(add)
	return both
}

// decimal returns the shortest decimal that reads back as f, a float of 32 or 64 bits.
func decimal(f float64, bits int) json.Number {
	return json.Number(strconv.FormatFloat(f, 'g', -1, bits))
}
