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
	schemes            []scheme              // as this configuration has them, in the registry's order; nil if none was read
	release            string                // of compressed-tensors
	isOldRelease       bool                  // a release of compressed-tensors that leaves bits of words unused: codes do not fill words
	hasRoundedFloats   bool                  // compressed-tensors' weights are still floats, with the scales by which they were rounded
	configGroups       []group               // of compressed-tensors
	groupParams        []params              // of groups
	regexpOverrides    []group               // of GPTQModel: overrides; the first that names a layer counts
	pathOverrides      []override            // MLX: of layers, by path; the last of a path counts
	unmatchedOverrides []unmatched           // overrides that name no layer, one for the same parameters
	comfyLayers        map[string]comfyLayer // of ComfyUI's files, by path
	// originallyE8M0 names tensors of U8 that were F8_E8M0 before a conversion to a format without that type.
	originallyE8M0 map[string]bool

	layersNamed int     // layers that groups and overrides name
	regexps     regexps // how many regular expressions there are
}

// scheme returns the scheme at a position of the registry, as the configuration has it.
func (c *Config) scheme(at uint8) scheme {
	if c.schemes == nil {
		return registry[at]
	}
	return c.schemes[at]
}

// schemeOfType returns the scheme of type T as the configuration has it, or its zero value if none was read.
func schemeOfType[T scheme](c *Config) (found T) {
	for _, s := range c.schemes {
		if t, ok := s.(T); ok {
			return t
		}
	}
	return found
}

// A File is a file of JSON that lies beside a checkpoint whose config.json says nothing of its quantization.
type File struct {
	Name   string
	method string // of a file whose object is that of quantization_config
}

// Files lists the files beside a checkpoint, in the order in which they are asked for: those of ModelOpt, of AutoGPTQ and
// GPTQModel, of old releases of AutoAWQ, and of auto-round.
var Files = []File{{"hf_quant_config.json", ""}, {"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}, {"quantization_config.json", "auto-round"}}

// ConfigJSON returns what config.json would say, from the object in the file.
func (f File) ConfigJSON(md layout.Metadata) layout.Metadata {
	if f.method == "" {
		return md
	}
	if text(md, "quant_method") == "" {
		md = append(slices.Clip(md), layout.Entry{Key: "quant_method", Value: f.method})
	}
	return layout.Metadata{{Key: "quantization_config", Value: md}}
}

// ReadConfig finds what objects say: those of config.json and the like, the outermost first.
func ReadConfig(objects ...layout.Metadata) *Config {
	c := &Config{originallyE8M0: make(map[string]bool)}
	for _, o := range objects {
		c.read(o)
		if text, ok := object(o, "text_config"); ok {
			c.read(text)
		}
	}
	slices.SortStableFunc(c.pathOverrides, func(a, b override) int { return cmp.Compare(a.path, b.path) })
	return c
}

// MentionsQuantization reports whether the configuration mentions quantization.
func (c *Config) MentionsQuantization() bool { return len(c.comfyLayers) > 0 || c.hasMethod() }

// hasMethod reports whether an object that describes a quantization was read.
func (c *Config) hasMethod() bool {
	return c.quantMethod != "" || c.bits != 0 || c.groupSize != 0 || c.Err != nil
}

// quantizationKeys have the objects that say how weights are quantized. The first one counts.
var quantizationKeys = []string{"quantization_config", "compression_config", "quantization"}

// read adds what an object says of quantization: a config.json, or the metadata of a file. The first description of a
// quantization counts. It sets c.Err if one cannot be relied on.
func (c *Config) read(o layout.Metadata) {
	c.readOriginals(o)
	own, _ := object(o, "safetensors") // of a file that was converted
	c.readLayers(o)
	c.readLayers(own)
	for _, key := range quantizationKeys {
		if q, ok := object(o, key); ok && !c.hasMethod() {
			c.readQuantization(key, q)
		}
	}
	c.readOllama(o)
	c.readOllama(own)
}

// readOriginals notes in c.originallyE8M0 the scales that were F8_E8M0 before package convert stored them as bytes (its key
// original_tensors).
func (c *Config) readOriginals(o layout.Metadata) {
	list, _ := object(o, "original_tensors")
	for name, v := range list.All() {
		if t, ok := v.(layout.Metadata); ok && text(t, "dtype") == layout.F8_E8M0.String() {
			c.originallyE8M0[name] = true
		}
	}
}

// readQuantization reads the object q that describes a quantization, found under key. It sets c.Err if the description
// contradicts itself or is not supported.
func (c *Config) readQuantization(key string, q layout.Metadata) {
	c.quantMethod = strings.ToLower(text(q, "quant_method"))
	c.quantMethod = cmp.Or(methodAliases[c.quantMethod], c.quantMethod)
	if _, said := q.Get("quant_algo"); said && c.quantMethod == "" {
		c.quantMethod = "modelopt"
	}
	switch {
	case c.quantMethod != "":
	case isMLX(q):
		c.quantMethod = "mlx"
	case key == "quantization": // an object of APR2 is called so too
		return
	default:
		c.Err = invalidf("the configuration's %s has no quant_method", key)
		return
	}
	c.quantization, c.params = q, c.readParams(q)
	for _, key := range []string{"quant_method", "checkpoint_format", "format", "packing_format", "data_type", "version", "mode", "linear_class", "quantization_mode", "quant_algo"} {
		if v, said := q.Get(key); said && v != nil {
			if s, ok := v.(string); !ok || s == "" {
				c.Err = invalidf("the configuration's %s is %v, no name", key, v)
				return
			}
		}
	}
	if key := rotation(q); key != "" {
		c.Err = unsupportedf("the weights were turned before they were quantized (%s)", key)
		return
	}
	switch c.quantMethod {
	case "mlx":
		c.readOverrides(q)
	case "modelopt":
		layers, _ := object(q, "quantized_layers")
		c.readOverrides(layers)
	case "auto-round":
		layers, _ := object(q, "extra_config")
		c.readOverrides(layers)
		c.readPatterns(layers)
	case "compressed-tensors":
		status := text(q, "quantization_status")
		c.hasRoundedFloats = status != "" && status != "compressed"
		if err := c.readRelease(text(q, "version")); err != nil {
			c.Err = err
			return
		}
	}
	c.schemes = slices.Clone(registry)
	for i, s := range c.schemes {
		own, err := s.configure(c)
		if err != nil {
			c.Err = err
			return
		}
		c.schemes[i] = own
	}
	dynamic, _ := object(q, "dynamic")
	c.readDynamic(dynamic)
	groups, _ := object(q, "config_groups")
	if len(groups) > maxGroups {
		c.Err = unsupportedf("the configuration has %d groups, more than %d", len(groups), maxGroups)
		return
	}
	var unread error
	for _, e := range groups {
		if g, ok := e.Value.(layout.Metadata); ok {
			unread = cmp.Or(unread, c.readGroup(g))
		}
	}
	if len(c.configGroups) > 1 { // a single group holds for all layers
		c.params.err = cmp.Or(c.params.err, unread)
	}
}

// isMLX reports whether an object without quant_method is MLX's: it has bits and group_size, and no key that only
// other methods have.
func isMLX(q layout.Metadata) bool {
	for _, key := range []string{"sym", "desc_act", "zero_point", "checkpoint_format", "config_groups", "w_bit", "weight_block_size"} {
		if _, ok := q.Get(key); ok {
			return false
		}
	}
	_, bits := q.Get("bits")
	_, group := q.Get("group_size")
	return bits && group
}

// refusal returns why no weight of this configuration is decoded, or nil if its method is known.
func (c *Config) refusal() error {
	switch {
	case c.Err != nil:
		return c.Err
	case schemesOfMethod[c.quantMethod] != nil:
		return nil
	case slices.Contains(undecodedMethods, c.quantMethod):
		return unsupportedf("quantized by %s, which is not decoded", c.quantMethod)
	}
	return unsupportedf("quantized by %s, which is not known", layout.Quote([]byte(c.quantMethod)))
}

// QuantizationObject returns the object that says how weights are quantized, as config.json has it under quantization_config. It is
// nil if there is none.
func (c *Config) QuantizationObject() layout.Metadata {
	const key = "quant_method"
	if _, ok := c.quantization.Get(key); ok || c.quantization == nil || c.quantMethod == ReadConfig(layout.Metadata{{Key: quantizationKeys[0], Value: c.quantization}}).quantMethod {
		return c.quantization
	}
	// The method was told by where the object stood, and not by the object.
	return append(slices.Clip(layout.Metadata{{Key: key, Value: c.quantMethod}}), c.quantization...)
}
