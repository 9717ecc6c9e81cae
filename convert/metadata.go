package convert

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// requiredMetadata returns the keys that every APR2 file must have (APR-FORMAT-002, "Metadata
// Section"), for a model that says nothing.
func requiredMetadata() layout.Metadata {
	return layout.Metadata{
		{Key: "apr_version", Value: "2.0.0"},
		{Key: "model_type", Value: "unknown"},
		{Key: "architecture", Value: layout.Metadata{}},
	}
}

// describePlan adds what the caller and the plan say.
func (p *Plan) describePlan() error {
	MergeConfig(&p.Metadata, p.opts.Config)
	if p.Format != layout.GGUF {
		MergeConfig(&p.Metadata, untyped(p.opts.Set))
	}
	p.describeLayers()
	if p.unquantizes() {
		p.Metadata = withoutMethod(p.Metadata)
	} else if err := p.carryMethod(); err != nil {
		return err
	}
	setQuantization(&p.Metadata, p.Tensors, p.method())
	setOriginals(&p.Metadata, p.Tensors, p.target.scalars)
	return nil
}

// setQuantization enters how the new file is quantized. Old scales of tensors that are re-encoded
// go.
func setQuantization(md *layout.Metadata, plan []Tensor, new string) {
	old := object(*md, "quantization")
	q := slices.Clone(old) // the source's metadata is not ours to change
	if method, ok := q.Get("method"); new != "" {
		q.Set("method", new)
		q.Set("bits_per_weight", number(bitsPerWeight(plan), 64))
	} else if ok && outdated(method, plan) {
		q = slices.DeleteFunc(q, func(e layout.Entry) bool { return e.Key == "method" || e.Key == "bits_per_weight" })
	}
	scales, zeros := unchanged(object(old, "scales"), plan), unchanged(object(old, "zero_points"), plan)
	for i := range plan {
		t := &plan[i]
		if t.scaled {
			scales = append(scales, layout.Entry{Key: t.Name, Value: number(float64(t.quant.Scale), 32)})
		}
		if t.scaled && t.quant.Zero != 0 {
			zeros = append(zeros, layout.Entry{Key: t.Name, Value: json.Number(strconv.FormatInt(t.quant.Zero, 10))})
		}
	}
	setObject(&q, "scales", scales)
	setObject(&q, "zero_points", zeros)
	if len(q) > 0 || old != nil { // what is there may be no object
		setObject(md, "quantization", q)
	}
}

// outdated reports whether the method that the source names is no tensor's type any more.
func outdated(method any, plan []Tensor) bool {
	changed := false
	for i := range plan {
		t := &plan[i]
		if t.To.String() == method {
			return false
		}
		changed = changed || !t.copied() && t.source.DType().String() == method
	}
	return changed
}

// unchanged returns the entries of m for tensors whose scale the plan does not set.
func unchanged(m layout.Metadata, plan []Tensor) layout.Metadata {
	decided := make(map[string]bool)
	for i := range plan {
		if t := &plan[i]; t.scaled || !t.copied() {
			decided[t.Name] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(m), func(e layout.Entry) bool { return decided[e.Key] })
}

func object(m layout.Metadata, key string) layout.Metadata {
	v, _ := m.Get(key)
	o, _ := v.(layout.Metadata)
	return o
}

// setObject sets key to o, or removes it if o is empty.
func setObject(m *layout.Metadata, key string, o layout.Metadata) {
	if len(o) > 0 {
		m.Set(key, o)
		return
	}
	*m = slices.DeleteFunc(*m, func(e layout.Entry) bool { return e.Key == key })
}

// without returns a copy of m that lacks some keys.
func without(m layout.Metadata, keys ...string) layout.Metadata {
	return slices.DeleteFunc(slices.Clone(m), func(e layout.Entry) bool { return slices.Contains(keys, e.Key) })
}

// bitsPerWeight divides the size of all tensors by the number of their elements.
func bitsPerWeight(plan []Tensor) float64 {
	var bits, elements float64
	for i := range plan {
		bits += 8 * float64(plan[i].Bytes)
		elements += float64(plan[i].Elements())
	}
	if elements == 0 {
		return 0
	}
	return math.Round(1000*bits/elements) / 1000
}

// number returns the shortest decimal that reads back as f, a float of 32 or 64 bits.
func number(f float64, bits int) json.Number {
	return json.Number(strconv.FormatFloat(f, 'g', -1, bits))
}

// topLevel are the keys that the specification places at the top of the metadata.
var topLevel = map[string]bool{
	"apr_version": true, "model_type": true, "architecture": true,
	"vocab": true, "mel_filterbank": true, "mel_filterbank_shape": true,
	"tokenizer_config": true, "generation_config": true, "model_card": true, "quantization": true,
}

// MergeConfig merges a configuration, such as the config.json beside a Hugging Face model,
// into APR2 metadata. Keys that the specification places at the top level go there, with
// objects merged key by key; every other key describes the architecture and goes into that
// object. An architecture that is no object, such as the name of one, becomes an object with the key
// "name". The configuration may replace that key. apr_version is the file's own and is
// not taken over.
//
// Objects in md are replaced, not modified: they may belong to an open model.
func MergeConfig(md *layout.Metadata, config layout.Metadata) {
	var top, architecture layout.Metadata
	for key, value := range config.All() {
		switch {
		case key == "apr_version":
		case key == "architecture":
			architecture = append(architecture, asArchitecture(value)...)
		case topLevel[key]:
			old, _ := md.Get(key)
			top = append(top, layout.Entry{Key: key, Value: merged(old, value)})
		default:
			architecture = append(architecture, layout.Entry{Key: key, Value: value})
		}
	}
	if len(architecture) > 0 {
		old, _ := md.Get("architecture")
		md.Set("architecture", merged(asArchitecture(old), architecture))
	}
	md.Merge(top)
}

// asArchitecture returns v as the object that the specification wants, nil if v is null.
func asArchitecture(v any) layout.Metadata {
	switch v := v.(type) {
	case nil:
		return nil
	case layout.Metadata:
		return v
	}
	return layout.Metadata{{Key: "name", Value: v}}
}

// merged returns value or, if it and old are objects, a new object with the keys of both.
func merged(old, value any) any {
	add, isObject := value.(layout.Metadata)
	was, wasObject := old.(layout.Metadata)
	if !isObject || !wasObject {
		return value
	}
	object := slices.Clone(was)
	object.Merge(add)
	return object
}

// withoutEncryption returns md without the keys that encrypt the source. A new file is signed anew, or not at all.
func withoutEncryption(md layout.Metadata) layout.Metadata {
	return slices.DeleteFunc(slices.Clone(md), func(e layout.Entry) bool {
		object, ok := e.Value.(layout.Metadata)
		_, known := object.Get("algorithm")
		return ok && known && (e.Key == "signature" || e.Key == "encryption")
	})
}
