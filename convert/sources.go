package convert

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// describe adds the metadata of a source file to md, which is APR2 metadata. f is the format of the file, and from has its
// metadata. Values that APR2 has keys for go under these keys. The file's other keys go under the format's name, such as
// gguf. Types and bytes that JSON would lose go under gguf_types and gguf_bytes. Metadata of an APR2 file are merged as they
// are. The package's documentation lists the keys.
func describe(md *layout.Metadata, f layout.Format, from layout.Metadata) {
	switch f {
	case layout.APR2:
		md.Merge(from)
		return
	case layout.SafeTensors:
		own, carried := splitCarried(from, f)
		md.Merge(carried)
		from = own
	case layout.GGUF:
		from = describeGGUF(md, from)
	case layout.APR1:
		from = describeAPR1(md, from)
	case layout.April:
		params := object(from, "params")
		md.Set("model_type", "april")
		if tokens, ok := params.Get("tokens"); ok {
			md.Set("vocab", tokens)
		}
		md.Set("architecture", without(params, "tokens"))
	}
	if len(from) == 0 {
		return
	}
	name := f.String()
	md.Set(name, from)
	setObject(md, name+"_types", typesOf(from, f == layout.GGUF))
	setObject(md, name+"_bytes", invalidTexts(from))
}

// describeGGUF adds model_type, architecture, vocab and carried keys of a GGUF file to md, and returns the file's own keys. The
// architecture gets the keys that begin with its name, such as llama.block_count. Carried keys replace the others.
func describeGGUF(md *layout.Metadata, from layout.Metadata) (own layout.Metadata) {
	own, carried := splitCarried(from, layout.GGUF)
	own = withoutSplit(own)
	if name := textAt(own, keyArchitecture); name != "" {
		md.Set("model_type", name)
		architecture := layout.Metadata{}
		for _, e := range own {
			if key, ok := strings.CutPrefix(e.Key, name+"."); ok {
				architecture = append(architecture, layout.Entry{Key: key, Value: e.Value})
			}
		}
		md.Set("architecture", architecture)
		if tokens, ok := own.Get(keyTokens); ok {
			md.Set("vocab", tokens)
		}
	}
	md.Merge(carried)
	return own
}

// whisperDimensions lists the dimensions in APR1's header. APR2's example has them under architecture.
var whisperDimensions = []string{
	"n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer",
	"n_text_ctx", "n_text_state", "n_text_head", "n_text_layer", "n_mels",
}

// describeAPR1 adds the metadata of an APR1 file, which from has, to md. It adds only keys that APR2 has too. rest has the
// other keys, and keys whose values are of another kind than APR2 wants. APR1 files are of two kinds. Binary files have
// Whisper's dimensions, which go below architecture. Their model_type is a size such as tiny.en, which becomes a name below
// architecture. The new model_type is whisper. The other files have a head in JSON, with any metadata.
func describeAPR1(md *layout.Metadata, from layout.Metadata) (rest layout.Metadata) {
	var dimensions, top layout.Metadata
	_, isBinary := from.Get("n_vocab") // which every binary file has; its model_type is the size of the model
	for _, e := range from {
		wantsObject, isTop := topLevelKeys[e.Key]
		_, isObject := e.Value.(layout.Metadata)
		_, isText := e.Value.(string)
		isOfOtherKind := wantsObject && !isObject || e.Key == "model_type" && !isText
		switch {
		case slices.Contains(whisperDimensions, e.Key):
			dimensions = append(dimensions, e)
		case e.Key == "model_type" && isBinary:
			dimensions = append(dimensions, layout.Entry{Key: "name", Value: e.Value}) // such as "tiny.en"
			top = append(top, layout.Entry{Key: e.Key, Value: "whisper"})
		case !isTop, e.Key == "apr_version", isOfOtherKind:
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

// splitCarried divides the metadata of a file of format f, which from has. carried is APR2 metadata that an earlier
// conversion has written as JSON: see carriedEntries. own has the file's other keys, and entries that are no JSON. An object
// in carried may have the name of f. It has further keys of the file, whose values have no type in f, and own has these keys
// too.
func splitCarried(from layout.Metadata, f layout.Format) (own, carried layout.Metadata) {
	limits := (*layout.Limits)(nil).WithDefaults()
	for _, e := range from {
		name, isCarried := strings.CutPrefix(e.Key, apr2.CarriedPrefix)
		text, isText := e.Value.(string)
		if isCarried && isText {
			if v, err := jsontext.ParseValue(text, f, 0, "metadata", limits); err == nil {
				carried = append(carried, layout.Entry{Key: name, Value: v})
				continue
			}
		}
		own = append(own, e)
	}
	if rest := object(carried, f.String()); rest != nil {
		own = merged(rest, own).(layout.Metadata)
	}
	return own, carried
}

// carriedEntries returns the entries that hold md, APR2 metadata, in a file of another format: values as JSON, under the keys
// apr2.KEY. It leaves out a value if one of known has a value of the same JSON under the same key. It fails for a value that has
// no JSON.
func carriedEntries(md layout.Metadata, known ...layout.Metadata) (carried layout.Metadata, err error) {
	for _, e := range md {
		text, err := layout.EncodeJSON(e.Value)
		if err != nil {
			return nil, err
		}
		isKnown := slices.ContainsFunc(known, func(k layout.Metadata) bool {
			v, exists := k.Get(e.Key)
			same, err := layout.EncodeJSON(v)
			return exists && err == nil && bytes.Equal(text, same)
		})
		if !isKnown {
			carried = append(carried, layout.Entry{Key: apr2.CarriedPrefix + e.Key, Value: string(text)})
		}
	}
	return carried, nil
}
