package convert

import (
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// describers add to md the metadata that APR2 has keys of its own for. They return the rest, which is
// written under the format's name. Metadata of other formats is written there as it is.
var describers = map[layout.Format]func(md *layout.Metadata, from layout.Metadata) (own layout.Metadata){
	layout.APR2:        describeAPR2,
	layout.SafeTensors: describeSafeTensors,
	layout.GGUF:        describeGGUF,
	layout.APR1:        describeAPR1,
	layout.April:       describeApril,
}

// describe adds from, the metadata of a file of format f, to md. The package's documentation lists the keys.
func describe(md *layout.Metadata, f layout.Format, from layout.Metadata) {
	if describer, ok := describers[f]; ok {
		from = describer(md, from)
	}
	if len(from) == 0 {
		return
	}
	name := f.String()
	md.Set(name, from)
	if types := typesOf(from, f == layout.GGUF); hasMembers(types) {
		md.Set(name+"_types", types)
	}
	setObject(md, name+"_bytes", bytesOf(from))
}

// describeAPR2 leaves everything where it is.
func describeAPR2(md *layout.Metadata, from layout.Metadata) (own layout.Metadata) {
	md.Merge(from)
	return nil
}

// describeSafeTensors takes APR2 metadata out of from, if a conversion has put some there.
func describeSafeTensors(md *layout.Metadata, from layout.Metadata) (own layout.Metadata) {
	own, carried := takeCarried(from, layout.SafeTensors)
	md.Merge(carried)
	return own
}

// takeCarried divides the metadata of a file of format f into its own keys and the APR2 metadata that
// a conversion has put there.
func takeCarried(from layout.Metadata, f layout.Format) (own, carried layout.Metadata) {
	if !slices.ContainsFunc(from, func(e layout.Entry) bool { return strings.HasPrefix(e.Key, apr2.CarriedPrefix) }) {
		return from, nil
	}
	for key, value := range from.All() {
		name, ok := strings.CutPrefix(key, apr2.CarriedPrefix)
		text, isText := value.(string)
		if ok && isText {
			lim := (*layout.Limits)(nil).WithDefaults()
			if v, err := jsontext.ParseValue(text, f, 0, "metadata", lim); err == nil {
				carried = append(carried, layout.Entry{Key: name, Value: v})
				continue
			}
		}
		own = append(own, layout.Entry{Key: key, Value: value})
	}
	if rest := object(carried, f.String()); rest != nil {
		own = merged(rest, own).(layout.Metadata)
	}
	return own, carried
}

// describeGGUF maps what APR2 has keys of its own for. The architecture gets the keys that begin
// with its name, such as llama.block_count.
func describeGGUF(md *layout.Metadata, from layout.Metadata) (own layout.Metadata) {
	from, carried := takeCarried(from, layout.GGUF)
	from = withoutSplit(from)
	if name := stringAt(from, keyArchitecture); name != "" {
		md.Set("model_type", name)
		architecture := layout.Metadata{}
		for key, value := range from.All() {
			if k, ok := strings.CutPrefix(key, name+"."); ok {
				architecture = append(architecture, layout.Entry{Key: k, Value: value})
			}
		}
		md.Set("architecture", architecture)
		if tokens, ok := from.Get(keyTokens); ok {
			md.Set("vocab", tokens)
		}
	}
	md.Merge(carried)
	return from
}

// whisperDimensions lists the dimensions in APR1's header. APR2's example has them under architecture.
var whisperDimensions = []string{
	"n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer",
	"n_text_ctx", "n_text_state", "n_text_head", "n_text_layer", "n_mels",
}

// objects lists the keys that APR2 has for objects.
var objects = map[string]bool{"architecture": true, "tokenizer_config": true, "generation_config": true, "model_card": true, "quantization": true}

// describeAPR1 moves the keys that have a place in APR2 there. Files of the container JSON, whose
// metadata is any JSON, use the same keys.
func describeAPR1(md *layout.Metadata, from layout.Metadata) (rest layout.Metadata) {
	var dimensions, top layout.Metadata
	_, binary := from.Get("n_vocab")
	for key, value := range from.All() {
		e := layout.Entry{Key: key, Value: value}
		_, isObject := value.(layout.Metadata)
		_, isText := value.(string)
		switch {
		case slices.Contains(whisperDimensions, key):
			dimensions = append(dimensions, e)
		case key == "model_type" && binary:
			dimensions = append(dimensions, layout.Entry{Key: "name", Value: value}) // the size: "tiny.en"
			top = append(top, layout.Entry{Key: key, Value: "whisper"})
		case !topLevel[key], key == "apr_version", key == "model_type" && !isText, objects[key] && !isObject:
			rest = append(rest, e)
		default:
			top = append(top, e)
		}
	}
	md.Merge(top)
	if len(dimensions) > 0 {
		md.Set("architecture", merged(object(*md, "architecture"), dimensions))
	}
	return rest
}

// describeApril takes vocabulary and dimensions from the parameters, which also stay where they are.
func describeApril(md *layout.Metadata, from layout.Metadata) (own layout.Metadata) {
	md.Set("model_type", "april")
	params := slices.Clone(object(from, "params"))
	if tokens, ok := params.Get("tokens"); ok {
		md.Set("vocab", tokens)
	}
	setObject(&params, "tokens", nil)
	md.Set("architecture", params)
	return from
}

// safeTensorsMetadata returns APR2 metadata as __metadata__ can hold it, whose values are strings.
// Keys of SafeTensors files stay as they were; all others become JSON under the key apr2.KEY.
// Keys that every APR2 file must have are left out if they say nothing. rest holds values of
// SafeTensors files that are no strings, as an index may have them.
func safeTensorsMetadata(md layout.Metadata) (text, rest layout.Metadata, err error) {
	var carried layout.Metadata
	silent := requiredMetadata()
	for key, value := range md.All() {
		if own, ok := value.(layout.Metadata); ok && key == layout.SafeTensors.String() {
			text, rest = stringsOf(own)
			continue
		}
		if key == "apr_version" || saysSame(silent, key, value) {
			continue
		}
		e, err := carriedAs(key, value)
		if err != nil {
			return nil, nil, err
		}
		carried = append(carried, e)
	}
	text.Merge(carried)
	return text, rest, nil
}

// carriedAs returns the entry of __metadata__ that stands for one of APR2 metadata. The text is made as it is written.
func carriedAs(key string, value any) (layout.Entry, error) {
	_, err := layout.WriteJSON(nil, value)
	return layout.Entry{Key: apr2.CarriedPrefix + key, Value: layout.JSONText{Value: value}}, err
}

// stringsOf divides md into strings and all other values.
func stringsOf(md layout.Metadata) (text, rest layout.Metadata) {
	isText := func(e layout.Entry) bool { _, ok := e.Value.(string); return ok }
	if !slices.ContainsFunc(md, func(e layout.Entry) bool { return !isText(e) }) {
		return slices.Clip(md), nil
	}
	for _, e := range md {
		if isText(e) {
			text = append(text, e)
		} else {
			rest = append(rest, e)
		}
	}
	return text, rest
}
