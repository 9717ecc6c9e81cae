package scheme

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// An override is what a configuration says of the layer at a path. There may be very many: parameters are made
// of it when they are asked for.
type override struct {
	path  string
	value any // an object, false, or parameters that Ollama has a name for
}

// overrideOf returns the parameters that the configuration has for the layer at exactly this path. The last ones
// count. ok is false if it has none.
func (c *Config) overrideOf(path []byte) (p params, ok bool) {
	// after is the position of the first path that is greater: c.pathOverrides is sorted.
	after, _ := slices.BinarySearchFunc(c.pathOverrides, path, func(o override, path []byte) int {
		if o.path <= string(path) {
			return -1
		}
		return 1
	})
	if after == 0 || c.pathOverrides[after-1].path != string(path) {
		return p, false
	}
	return c.overrideParams(&c.pathOverrides[after-1]), true
}

// overrideParams returns the parameters that an override holds: an object of JSON, Ollama's values, or false for a
// layer that is not quantized.
func (c *Config) overrideParams(o *override) (p params) {
	switch says := o.value.(type) {
	case layout.Metadata:
		p = c.readParams(says)
	case ollamaValues:
		p, _ = says.toParams()
	case bool:
		p.notQuantized = true
	}
	return p
}

// unmatched is an override whose path is that of no layer.
type unmatched struct {
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
	maxGroups = 64
	maxNames  = 1 << 17 // of layers: 384 experts in each of 61 are 70,000
)

// readGroup adds one of the config_groups: its parameters, and its targets, which are names of layers or regular
// expressions (re:). It fails if an expression cannot be read, so that nothing tells which layers it means.
func (c *Config) readGroup(o layout.Metadata) (unread error) {
	w, ok := object(o, "weights")
	if !ok {
		return nil
	}
	g := group{params: c.readParams(w), exact: make(map[string]bool)}
	g.format = text(o, "format")
	targets, _ := o.Get("targets")
	if list, ok := layout.As[[]string](targets); ok && c.countNamesOrSetErr(len(list)) {
		for _, target := range list {
			if text, ok := strings.CutPrefix(target, "re:"); ok {
				p, err := c.regexps.compile(text)
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
	c.configGroups, c.groupParams = append(c.configGroups, g), append(c.groupParams, g.params)
	return unread
}

// countNamesOrSetErr counts n more names of layers. If all are more than maxNames, it sets c.Err, which refuses all
// weights, and returns false.
func (c *Config) countNamesOrSetErr(n int) bool {
	if c.layersNamed += n; c.layersNamed > maxNames {
		c.Err = unsupportedf("the configuration names %d layers, more than %d", c.layersNamed, maxNames)
	}
	return c.layersNamed <= maxNames
}

// readOverrides adds the parameters of single layers from an object whose keys are paths of layers. Too many layers set c.Err.
func (c *Config) readOverrides(q layout.Metadata) {
	if !c.countNamesOrSetErr(len(q)) {
		return
	}
	c.pathOverrides = slices.Grow(c.pathOverrides, len(q))
	for _, e := range q {
		if _, ok := e.Value.(layout.Metadata); ok || e.Value == false {
			c.pathOverrides = append(c.pathOverrides, override{e.Key, e.Value})
		}
	}
}

// readDynamic adds GPTQModel's overrides. Their keys are regular expressions of layers, some behind "+:". Layers
// behind "-:" are not quantized, and it skips them.
func (c *Config) readDynamic(o layout.Metadata) {
	for _, e := range o {
		if over, ok := e.Value.(layout.Metadata); ok && !strings.HasPrefix(e.Key, "-:") {
			c.addPattern(strings.TrimPrefix(e.Key, "+:"), over)
		}
	}
}

// readPatterns adds auto-round's overrides whose keys are regular expressions: they may match anywhere in the path
// of a layer. It skips keys that are paths.
func (c *Config) readPatterns(o layout.Metadata) {
	for _, e := range o {
		if over, ok := e.Value.(layout.Metadata); ok && strings.ContainsAny(e.Key, `*^$|()[]?+\`) {
			c.addPattern(".*(?:"+e.Key+")", over)
		}
	}
}

// addPattern adds the parameters in an object for all layers whose paths match a regular expression. If the expression
// cannot be compiled, it sets c.params.err: any layer may be meant.
func (c *Config) addPattern(text string, says layout.Metadata) {
	p, err := c.regexps.compile(text)
	if err != nil {
		c.params.err = cmp.Or(c.params.err, err)
		return
	}
	c.regexpOverrides = append(c.regexpOverrides, group{params: c.readParams(says), patterns: []*regexp.Regexp{p}})
}

// groupParamsOf returns the parameters of the config_groups of compressed-tensors that name the layer at a path. If none does, or if
// there is only one group, it returns the parameters of all groups.
func (c *Config) groupParamsOf(path []byte) []params {
	var named []params
	for i := 0; i < len(c.configGroups) && len(c.configGroups) > 1; i++ {
		if g := &c.configGroups[i]; g.names(path) {
			named = append(named, g.params)
		}
	}
	if named == nil {
		named = c.groupParams
	}
	return slices.Clip(named)
}

// paramsOf returns the parameters of the layer at a path. An override of this path replaces those for all layers;
// without one, the first regular expression that matches the path does.
func (c *Config) paramsOf(path []byte) params {
	p := c.params
	over, ok := c.overrideOf(path)
	for i := 0; i < len(c.regexpOverrides) && !ok; i++ {
		if ok = c.regexpOverrides[i].names(path); ok {
			over = c.regexpOverrides[i].params
		}
	}
	if !ok {
		return p
	}
	if over.notQuantized || c.quantMethod == "mlx" { // MLX's overrides inherit nothing
		return over
	}
	if over.groupSize != 0 || over.groupIsRow {
		p.groupSize, p.groupIsRow = over.groupSize, over.groupIsRow
	}
	p.bits, p.format, p.symmetric, p.err = cmp.Or(over.bits, p.bits), cmp.Or(over.format, p.format), cmp.Or(over.symmetric, p.symmetric), cmp.Or(over.err, p.err)
	return p
}

// names reports whether g names the layer itself, rather than layers of its class.
func (g *group) names(layer []byte) bool {
	return g.exact[string(layer)] || slices.ContainsFunc(g.patterns, func(p *regexp.Regexp) bool { return p.Match(layer) })
}
