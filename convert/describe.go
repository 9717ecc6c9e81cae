package convert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/scheme"
)

// describeChanges updates Metadata: what the options set, how the planned tensors are quantized, and which
// original types and shapes are lost. It fails if addMethod does: quantized weights stay, and their description is faulty.
func (p *Plan) describeChanges() error {
	MergeConfig(&p.Metadata, p.opts.Config)
	if p.Format != layout.GGUF { // whose keys have types: ggufMetadata sets them
		MergeConfig(&p.Metadata, parseSettings(p.opts.Set))
	}
	p.pruneLayers()
	if p.writesAllByValues() {
		p.Metadata = withoutMethod(p.Metadata)
	} else if err := p.addMethod(); err != nil {
		return err
	}
	p.setQuantization()
	p.setOriginals()
	return nil
}

// setQuantization sets the object "quantization" in Metadata. It has the scale and zero point of each tensor of integers and, if the
// options re-encode, the method and the bits per weight. Otherwise it removes the source's method if isObsoleteMethod reports true. Scales
// and zero points that the source has stay, except for tensors with a new scale or other bytes. If the source's "quantization" is no
// object, it stays as it is, unless there is something to set.
func (p *Plan) setQuantization() {
	old := object(p.Metadata, "quantization")
	q := slices.Clone(old) // the source's metadata belongs to the model
	if d := p.opts.DType; d != layout.Invalid {
		q.Set("method", cmp.Or(strings.ToUpper(p.opts.Recipe), d.String()))
		q.Set("bits_per_weight", decimal(p.bitsPerWeight(), 64))
	} else if method, ok := q.Get("method"); ok && p.isObsoleteMethod(method) {
		q = without(q, "method", "bits_per_weight")
	}
	isReplaced := make(map[string]bool) // names of tensors whose scale in the source no longer holds
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.hasScale || !t.isCopied() {
			isReplaced[t.Name] = true
		}
	}
	for _, e := range scalesOf(p.Tensors) {
		stillHold := slices.DeleteFunc(slices.Clone(object(old, e.Key)), func(e layout.Entry) bool { return isReplaced[e.Key] })
		setObject(&q, e.Key, append(stillHold, e.Value.(layout.Metadata)...))
	}
	if len(q) > 0 || old != nil {
		setObject(&p.Metadata, "quantization", q)
	}
}

// scalesOf returns the objects "scales" and "zero_points" of quantization, by name of tensor, for the tensors that have a scale.
func scalesOf(tensors []Tensor) layout.Metadata {
	var scales, zeros layout.Metadata
	for i := range tensors {
		t := &tensors[i]
		if t.hasScale {
			scales = append(scales, layout.Entry{Key: t.Name, Value: decimal(float64(t.scale.Scale), 32)})
		}
		if t.hasScale && t.scale.Zero != 0 {
			zeros = append(zeros, layout.Entry{Key: t.Name, Value: json.Number(strconv.FormatInt(t.scale.Zero, 10))})
		}
	}
	return layout.Metadata{{Key: "scales", Value: scales}, {Key: "zero_points", Value: zeros}}
}

// isObsoleteMethod reports whether method, a type's name in the source's metadata, no longer holds for the new model: a tensor
// that changes had this type, and no new tensor has it.
func (p *Plan) isObsoleteMethod(method any) bool {
	isChanged := false
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.To.String() == method {
			return false
		}
		isChanged = isChanged || !t.isCopied() && t.source.DType().String() == method
	}
	return isChanged
}

// bitsPerWeight returns the bits of all new tensors, before compression, divided by the number of their elements. It rounds
// to three decimals, and returns 0 if there are no elements.
func (p *Plan) bitsPerWeight() float64 {
	var bits, elements float64
	for i := range p.Tensors {
		bits += 8 * float64(p.Tensors[i].Bytes)
		elements += float64(p.Tensors[i].Elements())
	}
	return math.Round(1000*bits/max(elements, 1)) / 1000
}

// addMethod adds the model's description of quantization to the architecture in Metadata, unless Metadata has a description
// already. It fails if the model's description is faulty, since readers of the new file would have to guess. A faulty description is no
// error if Options.Config has another description. It is no error either if Metadata has the same fault, since readers refuse the new file.
func (p *Plan) addMethod() error {
	description, problem := p.model.Quantization()
	if problem != nil && configIn(p.opts.Config).MentionsQuantization() { // Options.Config replaces the description
		return nil
	}
	if description != nil && !configIn(p.Metadata).MentionsQuantization() {
		MergeConfig(&p.Metadata, layout.Metadata{{Key: "quantization_config", Value: description}})
	}
	if problem != nil && configIn(p.Metadata).Err == nil { // readers of the new file see no fault
		return fmt.Errorf("%w; the new file would be read without a configuration: mend the configuration of the source, or give one to convert --metadata", problem)
	}
	return nil
}

// configIn returns the description of quantization in the APR2 metadata md: the architecture's, or else that at the top.
func configIn(md layout.Metadata) *scheme.Config {
	return scheme.ReadConfig(object(md, "architecture"), md)
}

// withoutMethod returns a copy of md without the keys by which transformers, MLX, ModelOpt, AutoGPTQ and Ollama say how
// weights were quantized. It looks at the top, in the architecture, in text_config and among the keys of a SafeTensors
// file. It does not change md.
func withoutMethod(md layout.Metadata) layout.Metadata {
	out := make(layout.Metadata, 0, len(md))
	for _, e := range md {
		inner, isObject := e.Value.(layout.Metadata)
		switch {
		case e.Key == "quantization_config", e.Key == "compression_config", e.Key == "expert_dtype":
			continue
		case e.Key == "quantization" && isObject: // MLX's keys stand in one object with keys of APR2
			own := slices.DeleteFunc(slices.Clone(inner), func(e layout.Entry) bool {
				return !slices.Contains([]string{"method", "bits_per_weight", "scales", "zero_points"}, e.Key)
			})
			if len(own) == 0 {
				continue
			}
			e.Value = own
		case isObject && (e.Key == "architecture" || e.Key == "text_config"):
			e.Value = withoutMethod(inner)
		case isObject && e.Key == safeTensorsKey:
			e.Value = slices.DeleteFunc(withoutMethod(inner), func(e layout.Entry) bool {
				return scheme.IsOllamaKey(e.Key) || strings.HasPrefix(e.Key, "gptq_") // AutoGPTQ's gptq_bits and the like
			})
		}
		out = append(out, e)
	}
	return out
}

// shardKeys returns the entries of md, the keys of a SafeTensors file, that each of its shards needs: the framework that wrote
// the tensors ("format") and, if quantized weights stay, the keys that say how they are stored.
func (p *Plan) shardKeys(md layout.Metadata) (keys layout.Metadata) {
	// addMethod has put quantization_config into the architecture.
	quantizationKeys := []string{apr2.CarriedPrefix + "architecture", apr2.CarriedPrefix + "quantization", scheme.ComfyLayersKey}
	for _, e := range md {
		isQuantization := slices.Contains(quantizationKeys, e.Key) || scheme.IsOllamaKey(e.Key)
		if e.Key == "format" || isQuantization && p.staysQuantized() {
			keys = append(keys, e)
		}
	}
	return keys
}

// pruneLayers removes layers that are not quantized in the new file from ComfyUI's descriptions in Metadata. The descriptions
// are a JSON text among the keys of a SafeTensors file. If none is left, it removes that key. A text that is no JSON stays as
// it is.
func (p *Plan) pruneLayers() {
	own := object(p.Metadata, safeTensorsKey)
	text := textAt(own, scheme.ComfyLayersKey)
	if isWhole := !p.writesSomeByValues && p.opts.Only == nil; text == "" || isWhole { // every quantized layer stays one
		return
	}
	isQuantized := make(map[string]bool) // layers "a.b.c", also as "b.c" and "c": programs strip prefixes
	add := func(layer string) {
		for ok := true; ok; _, layer, ok = strings.Cut(layer, ".") { // drops the first word, until there is one word
			isQuantized[layer] = true
		}
	}
	for _, w := range p.Quantized {
		add(strings.TrimSuffix(w.Codes, ".weight"))
	}
	for _, prefix := range p.undecodedPrefixes {
		add(strings.TrimSuffix(prefix, "."))
	}
	v, err := parseJSON(text)
	if err != nil {
		return
	}
	md, _ := v.(layout.Metadata)
	layers := slices.DeleteFunc(slices.Clone(object(md, "layers")), func(e layout.Entry) bool { return !isQuantized[e.Key] })
	own, md = slices.Clone(own), slices.Clone(md)
	md.Set("layers", layers)
	if b, err := layout.EncodeJSON(md); err == nil {
		own.Set(scheme.ComfyLayersKey, string(b))
	}
	if len(layers) == 0 {
		own = without(own, scheme.ComfyLayersKey)
	}
	setObject(&p.Metadata, safeTensorsKey, own)
}

// findStale sets Stale to files beside the new one that still describe quantization, though the new model has no quantized
// weights. It does so only for SafeTensors, and only if the source had quantized weights. It skips files that cannot be read.
func (p *Plan) findStale() {
	if p.Format != layout.SafeTensors || !p.writesAllByValues() {
		return
	}
	for _, file := range append([]scheme.File{{Name: "config.json"}}, scheme.Files...) {
		path := filepath.Join(filepath.Dir(p.Path), file.Name)
		if md, err := ReadConfig(path); err == nil && scheme.ReadConfig(file.ConfigJSON(md)).MentionsQuantization() {
			p.Stale = append(p.Stale, path)
		}
	}
}
