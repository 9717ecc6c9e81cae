package convert

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/scheme"
)

// describePlan adds to Metadata what the options set and how the planned tensors are quantized. It fails if the
// source's configuration of quantized weights, which stay, cannot be read.
func (p *Plan) describePlan() error {
	MergeConfig(&p.Metadata, p.opts.Config)
	if p.Format != layout.GGUF {
		MergeConfig(&p.Metadata, parseSettings(p.opts.Set))
	}
	p.describeLayers()
	if p.dequantizes() {
		p.Metadata = withoutMethod(p.Metadata)
	} else if err := p.addMethod(); err != nil {
		return err
	}
	p.setQuantization()
	p.setOriginals()
	return nil
}

// setQuantization sets the object quantization: method, bits per weight, scales and zero points of the new file. It
// removes the source's scales and zero points of tensors that are not copied or whose scale the plan knows.
func (p *Plan) setQuantization() {
	old := object(p.Metadata, "quantization")
	q := slices.Clone(old) // the source's metadata belongs to the model
	if method, ok := q.Get("method"); p.method() != "" {
		q.Set("method", p.method())
		q.Set("bits_per_weight", decimal(p.bitsPerWeight(), 64))
	} else if ok && p.isOutdated(method) {
		q = without(q, "method", "bits_per_weight")
	}
	isDecided := make(map[string]bool) // names of the tensors whose entries of the source are removed
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.hasScale || !t.isCopied() {
			isDecided[t.Name] = true
		}
	}
	undecided := func(m layout.Metadata) layout.Metadata {
		return slices.DeleteFunc(slices.Clone(m), func(e layout.Entry) bool { return isDecided[e.Key] })
	}
	scales, zeros := undecided(object(old, "scales")), undecided(object(old, "zero_points"))
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.hasScale {
			scales = append(scales, layout.Entry{Key: t.Name, Value: decimal(float64(t.scale.Scale), 32)})
		}
		if t.hasScale && t.scale.Zero != 0 {
			zeros = append(zeros, layout.Entry{Key: t.Name, Value: json.Number(strconv.FormatInt(t.scale.Zero, 10))})
		}
	}
	setObject(&q, "scales", scales)
	setObject(&q, "zero_points", zeros)
	if len(q) > 0 || old != nil { // a value that is no object, for which old is nil, stays
		setObject(&p.Metadata, "quantization", q)
	}
}

// isOutdated reports whether method, the source's quantization, no longer holds: no new tensor has the type that it
// names, but a changed tensor of the source had it.
func (p *Plan) isOutdated(method any) bool {
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

// bitsPerWeight divides the size of all tensors by the number of their elements, to three decimals. It is 0 without
// elements.
func (p *Plan) bitsPerWeight() float64 {
	var bits, elements float64
	for i := range p.Tensors {
		bits += 8 * float64(p.Tensors[i].Bytes)
		elements += float64(p.Tensors[i].Elements())
	}
	return math.Round(1000*bits/max(elements, 1)) / 1000
}

// addMethod adds what files beside the model say about its quantization to the architecture in Metadata, unless
// Metadata says it: readers of the new file would have to guess. A configuration that cannot be read is an error,
// unless Options.Config or Metadata replaces it.
func (p *Plan) addMethod() error {
	said, problem := p.model.Quantization()
	if problem != nil && configIn(p.opts.Config).Says() {
		return nil
	}
	if said != nil && !configIn(p.Metadata).Says() {
		MergeConfig(&p.Metadata, layout.Metadata{{Key: "quantization_config", Value: said}})
	}
	if problem != nil && configIn(p.Metadata).Err == nil {
		return fmt.Errorf("%w; the new file would be read without a configuration: mend that of the source, or give one to convert --metadata", problem)
	}
	return nil
}

// configIn returns what metadata say about quantization.
func configIn(md layout.Metadata) *scheme.Config {
	return scheme.ReadConfig(object(md, "architecture"), md)
}

// withoutMethod returns md without the keys by which transformers, MLX, ModelOpt, AutoGPTQ and Ollama say how
// weights were quantized: at the top, in the architecture, in text_config and among those of a SafeTensors file.
func withoutMethod(md layout.Metadata) layout.Metadata {
	out := make(layout.Metadata, 0, len(md))
	for _, e := range md {
		inner, isObject := e.Value.(layout.Metadata)
		switch {
		case e.Key == "quantization_config", e.Key == "compression_config", e.Key == "expert_dtype":
			continue
		case e.Key == "quantization" && isObject: // MLX's keys stand beside those of APR2
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
				return scheme.IsOllamas(e.Key) || strings.HasPrefix(e.Key, "gptq_") // AutoGPTQ's gptq_bits and the like
			})
		}
		out = append(out, e)
	}
	return out
}

// shardKeys returns the keys of a SafeTensors file that each of its shards has: which framework wrote the tensors
// and, if quantized weights stay, how they are stored.
func (p *Plan) shardKeys(md layout.Metadata) (keys layout.Metadata) {
	methods := []string{apr2.CarriedPrefix + "architecture", apr2.CarriedPrefix + "quantization", scheme.Layers}
	for _, e := range md {
		isMethod := slices.Contains(methods, e.Key) || scheme.IsOllamas(e.Key)
		if e.Key == "format" || isMethod && len(p.Quantized)+len(p.undecoded) > 0 {
			keys = append(keys, e)
		}
	}
	return keys
}

// describeLayers removes from Metadata ComfyUI's descriptions of layers that are not quantized in the new file. They
// are a JSON text among the keys of a SafeTensors file. A text that is no JSON stays as it is.
func (p *Plan) describeLayers() {
	own := object(p.Metadata, safeTensorsKey)
	text := textAt(own, scheme.Layers)
	if text == "" || !p.decodes && p.opts.Only == nil {
		return
	}
	stays := make(map[string]bool) // layers "a.b.c", also as "b.c" and "c": programs strip prefixes
	add := func(layer string) {
		for ok := true; ok; _, layer, ok = strings.Cut(layer, ".") {
			stays[layer] = true
		}
	}
	for _, part := range p.Quantized {
		add(strings.TrimSuffix(part.Codes, ".weight"))
	}
	for _, prefix := range p.undecoded {
		add(strings.TrimSuffix(prefix, "."))
	}
	v, err := parseJSON(text)
	if err != nil {
		return
	}
	md, _ := v.(layout.Metadata)
	layers := slices.DeleteFunc(slices.Clone(object(md, "layers")), func(e layout.Entry) bool { return !stays[e.Key] })
	own, md = slices.Clone(own), slices.Clone(md)
	md.Set("layers", layers)
	if b, err := layout.EncodeJSON(md); err == nil {
		own.Set(scheme.Layers, string(b))
	}
	if len(layers) == 0 {
		own = without(own, scheme.Layers)
	}
	setObject(&p.Metadata, safeTensorsKey, own)
}

// findStale sets Stale: files beside a new SafeTensors file that say how weights are quantized, though none of them is.
// It skips files that cannot be read.
func (p *Plan) findStale() {
	if p.Format != layout.SafeTensors || !p.dequantizes() {
		return
	}
	for _, file := range append([]scheme.File{{Name: "config.json"}}, scheme.Files...) {
		path := filepath.Join(filepath.Dir(p.Path), file.Name)
		md := p.model.ConfigFile() // has been read, but is that beside the source
		if md == nil || !isSameFile(path, pathBeside(p.model.Files()[0].Path, "config.json")) {
			md, _ = ReadConfig(path)
		}
		if md != nil && scheme.ReadConfig(file.Object(md)).Says() {
			p.Stale = append(p.Stale, path)
		}
	}
}

// isSameFile reports whether two paths lead to one file.
func isSameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
