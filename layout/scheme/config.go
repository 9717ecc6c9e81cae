package scheme

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// Config is what the files beside a checkpoint say about its quantization. The zero value says nothing.
type Config struct {
	// Err says that the configuration cannot be relied on. All weights are refused for it.
	Err error

	method   string            // in lower case
	params                     // for all weights
	version  string            // of AWQ's layout, or of the release of compressed-tensors
	v2       bool              // GPTQ's zero points are stored as they are
	planes   bool              // GPTQ's codes are stored as bit planes
	layout   string            // GPTQ's format, if it is none that is known
	actOrder bool              // GPTQ's groups are said not to be consecutive
	linear   string            // BitNet's class of layers
	online   bool              // BitNet's weights are quantized when they are used
	patterns int               // of the groups
	groups   []group           // of compressed-tensors
	dynamic  []group           // of GPTQModel: overrides; the first that names a layer counts
	paths    map[string]params // MLX: overrides by the path of a layer
	layers   map[string]layer  // of ComfyUI's files, by path
	// powers names tensors of U8 that were F8_E8M0 before a conversion to a format without that type.
	powers map[string]bool
}

// params are what a configuration may say of one weight; zeros say nothing.
type params struct {
	bits, group uint64
	whole       bool // the group is a whole row
	strategy    string
	format      string // of compressed-tensors, or MLX's mode
	block       [2]uint64
	plain       bool // not quantized
	asymmetric  bool // there are zero points
	err         error
}

// group is the parameters of the layers that targets name.
type group struct {
	params
	exact    map[string]bool
	patterns []*regexp.Regexp
}

// names reports whether g names the layer itself, rather than layers of its class.
func (g *group) names(layer []byte) bool {
	return g.exact[string(layer)] || slices.ContainsFunc(g.patterns, func(p *regexp.Regexp) bool { return p.Match(layer) })
}

// mostPatterns and mostPattern bound the regular expressions of a configuration.
const mostPatterns, mostPattern = 64, 1 << 10

// readGroup reads the parameters and targets of a config_group.
func (c *Config) readGroup(o layout.Metadata) {
	w, ok := object(o, "weights")
	if !ok {
		return
	}
	g := group{params: readParams(w), exact: make(map[string]bool)}
	g.format = text(o, "format")
	targets, _ := o.Get("targets")
	list, _ := targets.([]string)
	for _, target := range list {
		pattern, ok := strings.CutPrefix(target, "re:")
		if !ok {
			g.exact[target] = true
		} else if p := c.pattern(pattern); p != nil {
			g.patterns = append(g.patterns, p)
		}
	}
	c.groups = append(c.groups, g)
}

// readDynamic reads GPTQModel's overrides: regular expressions of layers, after +: or nothing. Those after -: are not
// quantized.
func (c *Config) readDynamic(o layout.Metadata) {
	for _, e := range o {
		over, ok := e.Value.(layout.Metadata)
		if !ok || strings.HasPrefix(e.Key, "-:") {
			continue
		}
		if p := c.pattern(strings.TrimPrefix(e.Key, "+:")); p != nil {
			c.dynamic = append(c.dynamic, group{params: readParams(over), patterns: []*regexp.Regexp{p}})
		}
	}
}

// pattern returns a regular expression that matches as Python's match does, from the start of the name, or nil.
func (c *Config) pattern(text string) *regexp.Regexp {
	if len(text) > mostPattern || c.patterns >= mostPatterns {
		return nil
	}
	c.patterns++
	p, err := regexp.Compile("^(?:" + text + ")")
	if err != nil {
		return nil
	}
	return p
}

// candidates returns the parameters that a layer may have: those of the groups that name it, or else of
// all.
func (c *Config) candidates(layer []byte, own params) []params {
	if len(c.groups) == 0 {
		return []params{own}
	}
	var named, all []params
	for i := range c.groups {
		g := &c.groups[i]
		all = append(all, g.params)
		if len(c.groups) > 1 && g.names(layer) {
			named = append(named, g.params)
		}
	}
	if len(named) > 0 {
		return named
	}
	return all
}

// decodable are the methods whose weights are decoded, and undecodable those that are known.
var (
	decodable = []string{
		"", "fp8", "fbgemm_fp8", "modelopt", "modelopt_fp4", "modelopt_mixed", "compressed-tensors", "awq", "gptq", "auto-round", "auto_round", "intel/auto-round",
		"bitsandbytes", "mxfp4", "mxfp8", "nvfp4", "hqq", "bitnet", "mlx", "deepseek_fp8", "deepseek_v4_fp8",
	}
	undecodable = []string{
		"aqlm", "vptq", "quip", "spqr", "eetq", "higgs", "torchao", "quanto", "fp_quant", "marlin", "exl2", "exl3",
		"quark", "gptq_marlin", "awq_marlin", "sinq", "fouroversix", "svdquant",
	}
)

// ReadConfig finds what objects say: those of config.json and the like, the outermost first.
func ReadConfig(objects ...layout.Metadata) *Config {
	c := &Config{paths: make(map[string]params), powers: make(map[string]bool)}
	for _, o := range objects {
		c.read(o)
		if text, ok := object(o, "text_config"); ok {
			c.read(text)
		}
	}
	return c
}

// Says reports whether the configuration mentions quantization.
func (c *Config) Says() bool { return c.method != "" || c.bits != 0 || c.group != 0 || c.Err != nil }

func (c *Config) read(o layout.Metadata) {
	c.readOriginals(o)
	c.readLayers(o)
	if own, ok := object(o, "safetensors"); ok { // of a file that was converted
		c.readLayers(own)
	}
	for _, key := range []string{"quantization_config", "compression_config", "quantization"} {
		if q, ok := object(o, key); ok && !c.Says() {
			c.readQuantization(q)
		}
	}
	c.readOllama(o)
}

// ollamaTypes are Ollama's names of MLX's modes. A file says quant_type and group_size for all of its tensors, or NAME.quant_type and
// NAME.group_size for one. Source: ollama, x/create/client/quantize.go and docs on its blobs.
var ollamaTypes = map[string]params{
	"int2": {bits: 2}, "int3": {bits: 3}, "int4": {bits: 4}, "int6": {bits: 6}, "int8": {bits: 8},
	"nvfp4": {bits: 4, format: "nvfp4"}, "mxfp4": {bits: 4, format: "mxfp4"}, "mxfp8": {bits: 8, format: "mxfp8"},
}

// The ends of Ollama's keys.
const (
	QuantType = "quant_type"
	GroupSize = "group_size"
)

// readOllama reads the metadata of Ollama's files of tensors.
func (c *Config) readOllama(o layout.Metadata) {
	for key := range o.All() {
		name, ok := strings.CutSuffix(key, QuantType)
		if !ok || name != "" && name[len(name)-1] != '.' {
			continue
		}
		p, known := ollamaTypes[strings.ToLower(text(o, key))]
		group, err := strconv.ParseUint(text(o, name+GroupSize), 10, 32)
		if !known || err != nil || group == 0 {
			continue
		}
		p.group = group
		switch {
		case name != "":
			c.paths[strings.TrimSuffix(name[:len(name)-1], ".weight")] = p
		case !c.Says():
			c.params.bits, c.params.group, c.params.format = p.bits, p.group, p.format
		}
		c.method = cmp.Or(c.method, "mlx")
	}
}

// readOriginals reads which scales package convert could only keep as bytes (its key original_tensors).
func (c *Config) readOriginals(o layout.Metadata) {
	list, _ := object(o, "original_tensors")
	for name, v := range list.All() {
		if t, ok := v.(layout.Metadata); ok && text(t, "dtype") == layout.F8_E8M0.String() {
			c.powers[name] = true
		}
	}
}

func (c *Config) readQuantization(q layout.Metadata) {
	c.method = strings.ToLower(text(q, "quant_method"))
	if algo := strings.ToLower(text(q, "quant_algo")); algo != "" && c.method == "" {
		c.method = "modelopt"
	}
	c.params = readParams(q)
	if c.method == "" && c.bits != 0 {
		c.method = "mlx"
	}
	c.params.format = text(q, "format", "mode")
	c.version = strings.ToLower(text(q, "version"))
	packing := text(q, "packing_format")
	checkpoint := strings.ToLower(text(q, "checkpoint_format", "format"))
	c.planes = checkpoint == "gptq_p"
	c.v2 = c.planes || checkpoint == "gptq_v2" || strings.Contains(packing, "gptq_v2")
	if c.method == "gptq" && !slices.Contains([]string{"", "gptq", "gptq_v2", "gptq_p"}, checkpoint) {
		c.layout = checkpoint
	}
	dynamic, _ := object(q, "dynamic")
	c.readDynamic(dynamic)
	act, _ := q.Get("desc_act")
	c.actOrder = act == true
	c.linear, c.online = text(q, "linear_class"), text(q, "quantization_mode") == "online"
	groups, _ := object(q, "config_groups")
	for _, e := range groups {
		if g, ok := e.Value.(layout.Metadata); ok {
			c.readGroup(g)
		}
	}
	for _, e := range q {
		switch v := e.Value.(type) {
		case layout.Metadata:
			p := readParams(v)
			p.format = text(v, "mode")
			c.paths[e.Key] = p
		case bool:
			if !v {
				c.paths[e.Key] = params{plain: true}
			}
		}
	}
}

func readParams(q layout.Metadata) (p params) {
	for _, key := range []string{"bits", "w_bit", "num_bits", "weight_bits", "group_size", "q_group_size"} {
		if v, ok := q.Get(key); ok && v != nil {
			if _, ok := integer(q, key); !ok {
				p.err = misfit("the configuration says %s of %v, no integer", key, v)
			}
		}
	}
	if bits, ok := integer(q, "bits", "w_bit", "num_bits", "weight_bits"); ok {
		p.bits = uint64(bits)
		if bits < 1 || bits > 16 {
			p.err = misfit("the configuration says %d bits", bits)
		}
	}
	switch group, ok := integer(q, "group_size", "q_group_size"); {
	case !ok:
	case group == -1:
		p.whole = true
	case group < 1:
		p.err = misfit("the configuration says a group size of %d", group)
	default:
		p.group = uint64(group)
	}
	p.strategy = text(q, "strategy")
	symmetric, _ := q.Get("symmetric")
	p.asymmetric = symmetric == false
	for _, key := range []string{"weight_block_size", "block_structure"} {
		v, _ := q.Get(key)
		if list, ok := v.([]json.Number); ok && len(list) == 2 {
			p.block = [2]uint64{unsigned(list[0]), unsigned(list[1])}
		}
	}
	return p
}

// of returns the parameters of a layer.
func (c *Config) of(path []byte) params {
	p := c.params
	over, ok := c.paths[string(path)]
	for i := 0; i < len(c.dynamic) && !ok; i++ {
		if ok = c.dynamic[i].names(path); ok {
			over = c.dynamic[i].params
		}
	}
	if !ok {
		return p
	}
	if over.plain {
		return over
	}
	if over.group != 0 || over.whole {
		p.group, p.whole = over.group, over.whole
	}
	p.bits, p.format, p.err = cmp.Or(over.bits, p.bits), cmp.Or(over.format, p.format), cmp.Or(over.err, p.err)
	return p
}

// oldWords reports whether the release of compressed-tensors is one that leaves bits of words unused: those
// before 0.18 do if codes do not fill words.
func (c *Config) oldWords() bool {
	major, rest, _ := strings.Cut(c.version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	return c.method == "compressed-tensors" && major == "0" && err == nil && n < 18
}

// refusal returns why no weight of this configuration is decoded, or nil.
func (c *Config) refusal() error {
	switch {
	case c.Err != nil:
		return c.Err
	case slices.Contains(decodable, c.method):
		return nil
	case slices.Contains(undecodable, c.method):
		return unsupported("quantized by %s, which is not decoded", c.method)
	}
	return unsupported("quantized by %s, which is not known", layout.Quote([]byte(c.method)))
}

func object(md layout.Metadata, key string) (layout.Metadata, bool) {
	v, _ := md.Get(key)
	o, ok := v.(layout.Metadata)
	return o, ok
}

// text returns the first of some values that is a string.
func text(md layout.Metadata, keys ...string) string {
	for _, key := range keys {
		v, _ := md.Get(key)
		if s, ok := v.(string); ok {
			return s
		}
	}
	return ""
}

// integer returns the first of some values that is an integer.
func integer(md layout.Metadata, keys ...string) (int64, bool) {
	for _, key := range keys {
		v, _ := md.Get(key)
		if n, ok := v.(json.Number); ok {
			if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
				return i, true
			}
		}
	}
	return 0, false
}

func unsigned(n json.Number) uint64 {
	i, _ := strconv.ParseUint(string(n), 10, 64)
	return i
}

// misfit returns an error of parts that do not fit each other.
func misfit(format string, args ...any) error {
	return fmt.Errorf("%w: %s", layout.ErrInvalid, fmt.Sprintf(format, args...))
}

// unsupported returns an error of a valid weight that is not decoded.
func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", layout.ErrUnsupported, fmt.Sprintf(format, args...))
}
