package scheme

import (
	"bytes"
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

	said    layout.Metadata // the object that most of this was read from
	method  string          // in lower case
	params                  // for all weights
	version string          // of AWQ's layout, or of the release of compressed-tensors
	rounded bool            // compressed-tensors' weights are still floats, with the scales by which they were rounded
	old     bool            // a release of compressed-tensors that leaves bits of words unused: codes do not fill words
	gptq    gptqConfig
	linear  string           // BitNet's class of layers
	online  bool             // BitNet's weights are quantized when they are used
	groups  []group          // of compressed-tensors
	all     []params         // of groups
	dynamic []group          // of GPTQModel: overrides; the first that names a layer counts
	over    []override       // MLX: of layers, by path; the last of a path counts
	astray  []astray         // overrides that name no layer, one for the same parameters
	layers  map[string]layer // of ComfyUI's files, by path
	// powers names tensors of U8 that were F8_E8M0 before a conversion to a format without that type.
	powers map[string]bool

	named   int      // that groups and overrides name
	regular patterns // expressions
	last    answer
}

// An answer is what a configuration says of one layer.
type answer struct {
	layer []byte   // its path
	own   params   // what holds for it
	named []params // of the groups that name it, if there are several groups
}

// params are what a configuration may say of one weight; zeros say nothing.
type params struct {
	bits, group uint64
	whole       bool // the group is a whole row
	strategy    string
	format      string   // the value of the method's second key: format, mode, quant_algo or data_type
	kind        string   // int or float, of compressed-tensors' codes
	indexed     bool     // compressed-tensors' groups are not consecutive (actorder)
	symmetric   answered // GPTQ's zero points are all in the middle
	block       [2]uint64
	plain       bool // not quantized
	asymmetric  bool // there are zero points
	err         error
}

// answered is what a configuration answers to a question of yes or no.
type answered uint8

const (
	unsaid answered = iota
	yes
	no
)

// An override is what a configuration says of the layer at a path. There may be as many as the file has room for: parameters are made
// of it when they are asked for.
type override struct {
	path string
	says any // an object, false, or parameters that Ollama has a name for
}

// ollamaSays are the values of quant_type and group_size.
type ollamaSays struct{ kind, group string }

// params returns the parameters that o says, if Ollama knows its type.
func (o ollamaSays) params() (params, bool) {
	p, known := ollamaTypes[strings.ToLower(o.kind)]
	group, err := strconv.ParseUint(o.group, 10, 32)
	p.group = group
	return p, known && err == nil && group != 0
}

// override returns what is said of the layer at a path alone.
func (c *Config) override(path []byte) (p params, ok bool) {
	after, _ := slices.BinarySearchFunc(c.over, path, func(o override, path []byte) int {
		if o.path <= string(path) {
			return -1
		}
		return 1
	})
	if after == 0 || c.over[after-1].path != string(path) {
		return p, false
	}
	return c.parameters(&c.over[after-1]), true
}

// parameters returns what an override says.
func (c *Config) parameters(o *override) (p params) {
	switch says := o.says.(type) {
	case layout.Metadata:
		p = c.readParams(says)
	case ollamaSays:
		p, _ = says.params()
	case bool:
		p.plain = true
	}
	return p
}

// astray is an override whose path is that of no layer.
type astray struct {
	path string
	params
}

// group is the parameters of the layers that targets name.
type group struct {
	params
	exact    map[string]bool
	patterns []*regexp.Regexp
}

// Bounds of a configuration's groups.
const (
	mostGroups = 64
	mostNames  = 1 << 17 // of layers: 384 experts in each of 61 are 70,000
)

// readGroup reads the parameters and targets of a config_group. It returns why it cannot tell which layers are meant.
func (c *Config) readGroup(o layout.Metadata) (unread error) {
	w, ok := object(o, "weights")
	if !ok {
		return nil
	}
	g := group{params: c.readParams(w), exact: make(map[string]bool)}
	g.format = text(o, "format")
	targets, _ := o.Get("targets")
	if list, ok := layout.As[[]string](targets); ok && c.mayName(len(list)) {
		for _, target := range list {
			if text, ok := strings.CutPrefix(target, "re:"); ok {
				p, err := c.regular.compile(text)
				if err != nil {
					unread = err
					break
				}
				g.patterns = append(g.patterns, p)
			} else {
				g.exact[target] = true
			}
		}
	}
	c.groups, c.all = append(c.groups, g), append(c.all, g.params)
	return unread
}

// mayName counts n more names of layers. It fails if they are too many.
func (c *Config) mayName(n int) bool {
	if c.named += n; c.named > mostNames {
		c.Err = unsupported("the configuration names %d layers, more than %d", c.named, mostNames)
	}
	return c.named <= mostNames
}

// readDynamic reads GPTQModel's overrides: regular expressions of layers, after +: or nothing. Those after -: are not
// quantized.
func (c *Config) readDynamic(o layout.Metadata) {
	for _, e := range o {
		if over, ok := e.Value.(layout.Metadata); ok && !strings.HasPrefix(e.Key, "-:") {
			c.addPattern(strings.TrimPrefix(e.Key, "+:"), over)
		}
	}
}

// readPatterns reads what an object of auto-round says of the layers in whose paths its keys, regular expressions, match.
func (c *Config) readPatterns(o layout.Metadata) {
	for _, e := range o {
		if over, ok := e.Value.(layout.Metadata); ok && strings.ContainsAny(e.Key, `*^$|()[]?+\`) {
			c.addPattern(".*(?:"+e.Key+")", over)
		}
	}
}

// addPattern adds what an object says of the layers that a regular expression names. If this cannot be read, nobody knows
// which layers these are.
func (c *Config) addPattern(text string, says layout.Metadata) {
	p, err := c.regular.compile(text)
	if err != nil {
		c.params.err = cmp.Or(c.params.err, err)
		return
	}
	c.dynamic = append(c.dynamic, group{params: c.readParams(says), patterns: []*regexp.Regexp{p}})
}

// ask returns what is said of a layer. It remembers the last answer.
func (c *Config) ask(layer []byte) *answer {
	a := &c.last
	if a.layer != nil && bytes.Equal(layer, a.layer) {
		return a
	}
	a.layer, a.own, a.named = append(a.layer[:0], layer...), c.of(layer), a.named[:0]
	for i := 0; i < len(c.groups) && len(c.groups) > 1; i++ {
		if g := &c.groups[i]; g.names(layer) {
			a.named = append(a.named, g.params)
		}
	}
	return a
}

// A File is a file of JSON that lies beside a checkpoint whose config.json says nothing of its quantization.
type File struct {
	Name   string
	method string // of a file whose object is that of quantization_config
}

// Files lists the files beside a checkpoint, in the order in which they are asked for: those of ModelOpt, of AutoGPTQ and
// GPTQModel, of old releases of AutoAWQ, and of auto-round.
var Files = []File{{"hf_quant_config.json", ""}, {"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}, {"quantization_config.json", "auto-round"}}

// Object returns what config.json would say, from the object in the file.
func (f File) Object(md layout.Metadata) layout.Metadata {
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
	c := &Config{powers: make(map[string]bool)}
	for _, o := range objects {
		c.read(o)
		if text, ok := object(o, "text_config"); ok {
			c.read(text)
		}
	}
	slices.SortStableFunc(c.over, func(a, b override) int { return cmp.Compare(a.path, b.path) })
	return c
}

// Says reports whether the configuration mentions quantization.
func (c *Config) Says() bool { return len(c.layers) > 0 || c.hasMethod() }

// hasMethod reports whether an object that describes a quantization was read.
func (c *Config) hasMethod() bool {
	return c.method != "" || c.bits != 0 || c.group != 0 || c.Err != nil
}

// quantizationKeys have the objects that say how weights are quantized. The first one counts.
var quantizationKeys = []string{"quantization_config", "compression_config", "quantization"}

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
	groups := make(map[string]string)
	for key, v := range o.All() {
		if name, ok := strings.CutSuffix(key, GroupSize); ok {
			groups[name], _ = v.(string)
		}
	}
	for key, v := range o.All() {
		name, ok := strings.CutSuffix(key, QuantType)
		if !ok || name != "" && name[len(name)-1] != '.' {
			continue
		}
		kind, _ := v.(string)
		says := ollamaSays{kind, groups[name]}
		p, ok := says.params()
		if !ok {
			continue
		}
		switch {
		case name != "":
			c.over = append(c.over, override{strings.TrimSuffix(name[:len(name)-1], ".weight"), says})
		case !c.hasMethod():
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

// readQuantization reads the object that describes a quantization, which key names.
func (c *Config) readQuantization(key string, q layout.Metadata) {
	c.method = strings.ToLower(text(q, "quant_method"))
	c.method = cmp.Or(methodNames[c.method], c.method)
	if _, said := q.Get("quant_algo"); said && c.method == "" {
		c.method = "modelopt"
	}
	switch {
	case c.method != "":
	case isMLX(q):
		c.method = "mlx"
	case key == "quantization": // an object of APR2 is called so too
		return
	default:
		c.Err = misfit("the configuration's %s has no quant_method", key)
		return
	}
	c.said, c.params = q, c.readParams(q)
	for _, key := range []string{"quant_method", "checkpoint_format", "format", "packing_format", "data_type", "version", "mode", "linear_class", "quantization_mode", "quant_algo"} {
		if v, said := q.Get(key); said && v != nil {
			if s, ok := v.(string); !ok || s == "" {
				c.Err = misfit("the configuration's %s is %v, no name", key, v)
				return
			}
		}
	}
	if key := turned(q); key != "" {
		c.Err = unsupported("the weights were turned before they were quantized (%s)", key)
		return
	}
	switch c.method {
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
		c.rounded = status != "" && status != "compressed"
		if err := c.readRelease(text(q, "version")); err != nil {
			c.Err = err
			return
		}
	case "awq":
		c.version = strings.ToLower(text(q, "version"))
	}
	var err error
	if c.gptq, err = readGPTQ(q); err != nil && c.method == GPTQ {
		c.Err = err
		return
	}
	dynamic, _ := object(q, "dynamic")
	c.readDynamic(dynamic)
	c.linear, c.online = text(q, "linear_class"), text(q, "quantization_mode") == "online"
	groups, _ := object(q, "config_groups")
	if len(groups) > mostGroups {
		c.Err = unsupported("the configuration has %d groups, more than %d", len(groups), mostGroups)
		return
	}
	var unread error
	for _, e := range groups {
		if g, ok := e.Value.(layout.Metadata); ok {
			unread = cmp.Or(unread, c.readGroup(g))
		}
	}
	if len(c.groups) > 1 { // a single one holds for all layers
		c.params.err = cmp.Or(c.params.err, unread)
	}
}

// isMLX reports whether an object without quant_method is MLX's: it has bits and group_size, and no key of the other
// methods.
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

// release is the beginning of the name of a release of compressed-tensors.
var release = regexp.MustCompile(`^([0-9]+)\.([0-9]+)`)

// readRelease reads the release of compressed-tensors. Those before 0.18 leave bits of words unused.
func (c *Config) readRelease(version string) error {
	c.version = version
	if version == "" {
		return nil
	}
	m := release.FindStringSubmatch(version)
	if m == nil {
		return misfit("the configuration's version of compressed-tensors is %s, no release", layout.Quote([]byte(version)))
	}
	minor, err := strconv.Atoi(m[2])
	c.old = m[1] == "0" && err == nil && minor < 18
	return nil
}

// readOverrides reads what an object says of the layers whose paths are its keys.
func (c *Config) readOverrides(q layout.Metadata) {
	if !c.mayName(len(q)) {
		return
	}
	c.over = slices.Grow(c.over, len(q))
	for _, e := range q {
		if _, ok := e.Value.(layout.Metadata); ok || e.Value == false {
			c.over = append(c.over, override{e.Key, e.Value})
		}
	}
}

// sizeKeys are the keys of bits and of the group size, by method; other methods have those of gptq. A key of another method
// says nothing to the writer.
var sizeKeys = map[string]struct{ bits, group []string }{
	"awq":                {[]string{"bits", "w_bit"}, []string{"group_size", "q_group_size"}},
	"compressed-tensors": {[]string{"num_bits"}, []string{"group_size"}},
	"gptq":               {[]string{"bits"}, []string{"group_size"}},
	"modelopt":           {[]string{"num_bits"}, []string{"group_size"}},
}

// blockKeys are the keys that have the two sides of a block: group_size has for auto-round.
var blockKeys = []string{"weight_block_size", "block_structure", "group_size"}

// size returns the integer that one of some keys has, or several have alike.
func size(q layout.Metadata, keys []string) (n int64, ok bool, err error) {
	for _, key := range keys {
		v, _ := q.Get(key)
		_, isList := v.([]any)
		if v == nil || isList && slices.Contains(blockKeys, key) {
			continue
		}
		i, isInteger := integer(q, key)
		switch {
		case !isInteger:
			return 0, false, misfit("the configuration says %s of %v, no integer", key, v)
		case ok && i != n:
			return 0, false, misfit("the configuration says %s of %d, and %s of %d", keys[0], n, key, i)
		}
		n, ok = i, true
	}
	return n, ok, nil
}

// readParams reads what an object says of one layer or of all.
func (c *Config) readParams(q layout.Metadata) (p params) {
	keys, ok := sizeKeys[c.method]
	if !ok {
		keys = sizeKeys["gptq"]
	}
	bits, said, err := size(q, keys.bits)
	group, grouped, err2 := size(q, keys.group)
	p.err = cmp.Or(err, err2)
	if said {
		p.bits = uint64(bits)
		if bits < 1 || bits > 16 {
			p.err = misfit("the configuration says %d bits", bits)
		}
	}
	switch {
	case !grouped, group == 0 && c.method == "auto-round": // which means one group for all
	case group == -1:
		p.whole = true
	case group < 1:
		p.err = misfit("the configuration says a group size of %d", group)
	default:
		p.group = uint64(group)
	}
	order, _ := q.Get("actorder")
	p.indexed = order == true || order == "group" || order == "dynamic"
	p.strategy, p.kind, p.format = text(q, "strategy"), text(q, "type"), strings.ToLower(text(q, cmp.Or(details[c.method].key, "mode")))
	symmetric, _ := q.Get("symmetric")
	p.asymmetric = symmetric == false
	if sym, ok := q.Get("sym"); ok && sym != nil {
		switch sym {
		case true:
			p.symmetric = yes
		case false:
			p.symmetric = no
		default:
			p.err = misfit("the configuration says sym of %v, neither true nor false", sym)
		}
	}
	for _, key := range blockKeys {
		sides, ok := q.Get(key)
		_, single := sides.(json.Number)
		if !ok || sides == nil || key == "block_structure" && p.strategy != "block" || key == "group_size" && single {
			continue
		}
		list, _ := layout.As[[]json.Number](sides)
		if len(list) == 2 {
			p.block = [2]uint64{unsigned(list[0]), unsigned(list[1])}
		}
		if p.block[0] == 0 || p.block[1] == 0 {
			text, _ := layout.EncodeJSON(sides)
			p.err = misfit("the configuration's %s is %s, not two sizes", key, text)
		}
	}
	return p
}

// of returns the parameters of a layer.
func (c *Config) of(path []byte) params {
	p := c.params
	over, ok := c.override(path)
	for i := 0; i < len(c.dynamic) && !ok; i++ {
		if ok = c.dynamic[i].names(path); ok {
			over = c.dynamic[i].params
		}
	}
	if !ok {
		return p
	}
	if over.plain || c.method == "mlx" && ok { // whose overrides inherit nothing
		return over
	}
	if over.group != 0 || over.whole {
		p.group, p.whole = over.group, over.whole
	}
	p.bits, p.format, p.symmetric, p.err = cmp.Or(over.bits, p.bits), cmp.Or(over.format, p.format), cmp.Or(over.symmetric, p.symmetric), cmp.Or(over.err, p.err)
	return p
}

// refusal returns why no weight of this configuration is decoded, or nil.
func (c *Config) refusal() error {
	switch {
	case c.Err != nil:
		return c.Err
	case methods[c.method] != nil:
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
