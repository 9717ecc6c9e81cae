package scheme

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// Config is what the files beside a checkpoint say about its quantization. The zero value says nothing.
type Config struct {
	// Err says that the configuration cannot be relied on. All weights are refused for it.
	Err error

	quantization       layout.Metadata       // the object that most of this was read from
	quantMethod        string                // in lower case
	params                                   // for all weights
	texts              map[string]string     // the strings in quantization that were asked for, by key
	descAct            bool                  // GPTQ's groups are said not to be consecutive
	packingOfWriter    layout.Packing        // of GPTQ's codes of 5, 6 and 7 bits
	isBefore018        answer                // whether compressed-tensors has a release before 0.18; unset if no release is known
	configGroups       []group               // of compressed-tensors
	regexpOverrides    []group               // of GPTQModel and auto-round: overrides; the first that names a layer counts
	pathOverrides      []override            // of single layers, sorted by path; the last override of a path counts
	unmatchedOverrides []override            // overrides whose path is no layer; their values are params, and no two are equal
	comfyLayers        map[string]comfyLayer // of ComfyUI's files, by path
	// originallyE8M0 names tensors of U8 that were F8_E8M0 before a conversion to a format without that type.
	originallyE8M0 map[string]bool

	layersNamed int     // layers that groups and overrides name
	regexps     regexps // how many regular expressions there are
}

// A File is a file of JSON that lies beside a checkpoint whose config.json says nothing of its quantization.
type File struct {
	Name string
	// method is the quant_method of a file that has the content of quantization_config; "" if the file has config.json's content.
	method string
}

// Files lists the files beside a checkpoint, in the order in which they are asked for: the files of ModelOpt, of AutoGPTQ and
// GPTQModel, of old releases of AutoAWQ, and of auto-round.
var Files = []File{{"hf_quant_config.json", ""}, {"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}, {"quantization_config.json", "auto-round"}}

// ConfigJSON returns md, the content of the file, as a config.json would have it: under the key quantization_config. If md
// names no quant_method, it adds the method of the programs that write such files. If the file already has the content of a
// config.json, it returns md as it is.
func (f File) ConfigJSON(md layout.Metadata) layout.Metadata {
	if f.method == "" {
		return md
	}
	if text(md, "quant_method") == "" {
		md = append(slices.Clip(md), layout.Entry{Key: "quant_method", Value: f.method})
	}
	return layout.Metadata{{Key: "quantization_config", Value: md}}
}

// ReadConfig collects how weights are quantized from objects: a config.json, or the metadata of a file, the outermost first. The first
// object that describes a quantization counts, while parameters of single layers add up. Config.Err says what is wrong with them.
func ReadConfig(objects ...layout.Metadata) *Config {
	c := &Config{originallyE8M0: make(map[string]bool)}
	for _, o := range objects {
		c.read(o)
		if textConfig, ok := object(o, "text_config"); ok {
			c.read(textConfig)
		}
	}
	// For overrideOf: of equal paths the one that was read last comes last.
	slices.SortStableFunc(c.pathOverrides, func(a, b override) int { return cmp.Compare(a.path, b.path) })
	return c
}

// MentionsQuantization reports whether a description of a quantization, even one that cannot be relied on, or of a layer by ComfyUI, was read.
func (c *Config) MentionsQuantization() bool {
	return len(c.comfyLayers) > 0 || c.quantMethod != "" || c.Err != nil
}

// quantizationKeys have the objects that say how weights are quantized. The first one counts.
var quantizationKeys = []string{"quantization_config", "compression_config", "quantization"}

// read adds what o says of quantization; o is a config.json, or the metadata of a file. It reads a description of a quantization only
// if none was read before. It sets c.Err if a description contradicts itself, is not supported, or is no JSON.
func (c *Config) read(o layout.Metadata) {
	originals, _ := object(o, "original_tensors") // the types of tensors before package convert stored scales of F8_E8M0 as bytes
	for name, v := range originals.All() {
		if t, ok := v.(layout.Metadata); ok && text(t, "dtype") == layout.F8_E8M0.String() {
			c.originallyE8M0[name] = true
		}
	}
	converted, _ := object(o, "safetensors") // the metadata that a SafeTensors file had before it was converted
	c.readComfyLayers(o)
	c.readComfyLayers(converted)
	for _, key := range quantizationKeys {
		if q, ok := object(o, key); ok && c.quantMethod == "" && c.Err == nil {
			c.readQuantization(key, q)
		}
	}
	c.readOllama(o)
	c.readOllama(converted)
}

// readQuantization reads q, the first object that describes a quantization. key is the key of q. It sets c.Err if the
// description contradicts itself or is not supported, and then reads no more of q. It also sets c.Err if q names no method,
// unless key is quantization. APR2 has another object under that key, and readQuantization skips it.
func (c *Config) readQuantization(key string, q layout.Metadata) {
	c.quantMethod = methodOf(q)
	if c.quantMethod == "" {
		if key != "quantization" { // an object of APR2 is called so too
			c.Err = invalidf("the configuration's %s has no quant_method", key)
		}
		return
	}
	c.quantization, c.params = q, c.readParams(q)
	if c.Err = cmp.Or(c.checkNames(q), checkRotation(q), c.readRelease(q)); c.Err != nil {
		return
	}
	actOrder, _ := q.Get("desc_act")
	c.descAct, c.packingOfWriter = actOrder == true, c.readPackingOfWriter(q)
	c.readLayerOverrides(q)
	dynamic, _ := object(q, "dynamic") // of GPTQModel. Layers behind "-:" are not quantized, and have no codes that parameters could be for
	c.readPatterns(dynamic, func(key string) (string, bool) { return strings.TrimPrefix(key, "+:"), !strings.HasPrefix(key, "-:") })
	c.readGroups(q)
}

// methodOf returns the method by which an object describes a quantization, in lower case and under its usual name. Without a
// quant_method, an object with a quant_algo has the method "modelopt". An object with bits and group_size, and without keys
// of other methods, has the method "mlx". For all other objects methodOf returns "".
func methodOf(q layout.Metadata) string {
	has := func(key string) bool { _, ok := q.Get(key); return ok }
	others := []string{"sym", "desc_act", "zero_point", "checkpoint_format", "config_groups", "w_bit", "weight_block_size"}
	method := strings.ToLower(text(q, "quant_method"))
	switch {
	case method != "":
		return cmp.Or(methodAliases[method], method)
	case has("quant_algo"):
		return "modelopt"
	case has("bits") && has("group_size") && !slices.ContainsFunc(others, has):
		return "mlx"
	}
	return ""
}

// nameKeys are the keys whose values are names.
var nameKeys = []string{"quant_method", "checkpoint_format", "format", "packing_format", "data_type", "version", "mode", "linear_class", "quantization_mode", "quant_algo"}

// text returns the string that the description of the quantization has for a key, or "". It searches for each key once: there may be very
// many keys, and as many weights.
func (c *Config) text(key string) string {
	s, isKnown := c.texts[key]
	if !isKnown {
		if c.texts == nil {
			c.texts = make(map[string]string)
		}
		s = text(c.quantization, key)
		c.texts[key] = s
	}
	return s
}

// checkNames returns an error if q has an empty string, or a value other than a string and null, under one of nameKeys. It
// also returns an error if a configuration of GPTQ names two different formats.
func (c *Config) checkNames(q layout.Metadata) error {
	for _, key := range nameKeys {
		v, _ := q.Get(key)
		if s, isString := v.(string); v != nil && (!isString || s == "") {
			return invalidf("the configuration's %s is %v, no name", key, v)
		}
	}
	format, older := strings.ToLower(text(q, "checkpoint_format")), strings.ToLower(text(q, "format"))
	if c.quantMethod == "gptq" && format != "" && older != "" && format != older { // transformers takes the first, GPTQModel the second
		return invalidf("the configuration's checkpoint_format is %s, and its format %s", layout.Quote(format), layout.Quote(older))
	}
	return nil
}

// readLayerOverrides adds the parameters of single layers, under the key that the method has for them.
func (c *Config) readLayerOverrides(q layout.Metadata) {
	switch c.quantMethod {
	case "mlx":
		c.readOverrides(q)
	case "modelopt":
		layers, _ := object(q, "quantized_layers")
		c.readOverrides(layers)
	case "auto-round":
		layers, _ := object(q, "extra_config")
		c.readOverrides(layers)
		// A key is a path, or an expression that may match anywhere in a path. Dots are no sign of an expression.
		c.readPatterns(layers, func(key string) (string, bool) { return ".*(?:" + key + ")", strings.ContainsAny(key, `*^$|()[]?+\`) })
	}
}

// unknownPacking stands for the packing of an unknown program, which is never PackRows.
const unknownPacking = layout.PackRows

// readPackingOfWriter returns how codes of 5, 6 and 7 bits are packed, which depends on the program that wrote the file. q
// names the program by its method, as provider, or in meta.quantizer. auto-round packs in one stream of bits, GPTQModel in
// bit planes. For another program it returns unknownPacking.
func (c *Config) readPackingOfWriter(q layout.Metadata) layout.Packing {
	v, _ := q.Get("meta", "quantizer")
	quantizer, _ := v.(string) // the program and its release, or a list that begins with them
	if list, _ := layout.As[[]string](v); len(list) > 0 {
		quantizer = list[0]
	}
	switch {
	case c.quantMethod == "auto-round" || text(q, "provider") == "auto-round":
		return layout.PackGPTQ
	case strings.HasPrefix(quantizer, "gptqmodel"):
		return layout.PackPlanes
	}
	return unknownPacking
}

// refusal returns why no weight of this configuration is decoded. The reason is c.Err if that is set. Otherwise it returns nil
// for the methods in schemesOfMethod, which has an entry for "", no method. All other methods are ErrUnsupported.
func (c *Config) refusal() error {
	switch {
	case c.Err != nil:
		return c.Err
	case schemesOfMethod[c.quantMethod] != nil:
		return nil
	case slices.Contains(undecodedMethods, c.quantMethod):
		return unsupportedf("quantized by %s, which is not decoded", c.quantMethod)
	}
	return unsupportedf("quantized by %s, which is not known", layout.Quote(c.quantMethod))
}

// QuantizationObject returns the object that says how weights are quantized, as config.json has it under quantization_config, or nil
// if there is none.
func (c *Config) QuantizationObject() layout.Metadata { return c.quantization }
