package scheme

import (
	"cmp"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// An override is what a configuration says of the layer at a path. There may be very many: parameters are made
// of it when they are asked for.
type override struct {
	path  string
	value any // layout.Metadata, false for a layer that is not quantized, or params
}

// overrideOf returns the parameters that the configuration has for the layer at exactly this path. The last override of a path
// counts. ok is false if there is none.
func (c *Config) overrideOf(path []byte) (p params, ok bool) {
	// after is the position of the first path that is greater: c.pathOverrides is sorted.
	after := sort.Search(len(c.pathOverrides), func(i int) bool { return c.pathOverrides[i].path > string(path) })
	if after == 0 || c.pathOverrides[after-1].path != string(path) {
		return p, false
	}
	return c.overrideParams(&c.pathOverrides[after-1]), true
}

// overrideParams returns the parameters that an override holds. p.err says what is wrong with the parameters of an object.
func (c *Config) overrideParams(o *override) (p params) {
	if q, isObject := o.value.(layout.Metadata); isObject {
		return c.readParams(q)
	}
	p, _ = o.value.(params) // of Ollama
	p.notQuantized = p.notQuantized || o.value == false
	return p
}

// group is the parameters of the layers that targets name.
type group struct {
	params
	exactNames map[string]bool
	patterns   []*regexp.Regexp
}

// Bounds of a configuration's groups.
const (
	maxGroups = 64
	maxNames  = 1 << 17 // of layers: 384 experts in each of 61 are 70,000
)

// readGroups appends the groups of layers in q's config_groups, which compressed-tensors writes, to c.configGroups. If there
// are more than maxGroups, it sets c.Err and appends none. If a target of a group cannot be read, the group may mean any
// layer. If there are several groups, readGroups then sets c.params.err to the first such error, which holds for all layers.
// An error that is there already stays. A single group means all layers, whatever its targets, and readGroups drops its
// error.
func (c *Config) readGroups(q layout.Metadata) {
	groups, _ := object(q, "config_groups")
	if len(groups) > maxGroups {
		c.Err = unsupportedf("the configuration has %d groups, more than %d", len(groups), maxGroups)
		return
	}
	var err error
	for _, e := range groups {
		if g, ok := e.Value.(layout.Metadata); ok {
			err = cmp.Or(err, c.readGroup(g))
		}
	}
	if len(c.configGroups) > 1 {
		c.params.err = cmp.Or(c.params.err, err)
	}
}

// readGroup appends one of the config_groups to c.configGroups: its parameters, and its targets. A target is the name of a layer, or a
// regular expression behind "re:". If an expression cannot be compiled, readGroup returns that error. The group appended then lacks that
// target and the targets behind it. Too many names set c.Err, and the group has no targets. readGroup skips a group without the key
// weights, which is about activations.
func (c *Config) readGroup(o layout.Metadata) (err error) {
	weights, ok := object(o, "weights")
	if !ok {
		return nil
	}
	g := group{params: c.readParams(weights), exactNames: make(map[string]bool)}
	g.format = text(o, "format")
	targets, _ := o.Get("targets")
	list, _ := layout.As[[]string](targets)
	if !c.countNamesOrSetErr(len(list)) {
		list = nil
	}
	for _, target := range list {
		expression, isExpression := strings.CutPrefix(target, "re:")
		if !isExpression {
			g.exactNames[target] = true
			continue
		}
		var p *regexp.Regexp
		if p, err = c.regexps.compile(expression); err != nil {
			break
		}
		g.patterns = append(g.patterns, p)
	}
	c.configGroups = append(c.configGroups, g)
	return err
}

// countNamesOrSetErr adds n to c.layersNamed, the number of names of layers so far. If the sum exceeds maxNames, it returns false, and sets
// c.Err: the configuration then refuses all weights.
func (c *Config) countNamesOrSetErr(n int) bool {
	if c.layersNamed += n; c.layersNamed > maxNames {
		c.Err = unsupportedf("the configuration names %d layers, more than %d", c.layersNamed, maxNames)
	}
	return c.layersNamed <= maxNames
}

// readOverrides adds overrides from an object whose keys are paths of layers. A value is an object of parameters, or false for
// a layer that is not quantized. It skips other values. If there are too many layers, it sets c.Err and adds none.
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

// readPatterns adds the overrides of an object. Each of its keys has a regular expression of paths of layers, which expressionOf returns. It
// skips keys for which expressionOf returns false, and values that are no objects. If an expression cannot be compiled, it sets
// c.params.err, since the override could be for any layer.
func (c *Config) readPatterns(o layout.Metadata, expressionOf func(key string) (string, bool)) {
	for _, e := range o {
		over, isObject := e.Value.(layout.Metadata)
		expression, ok := expressionOf(e.Key)
		if !isObject || !ok {
			continue
		}
		p, err := c.regexps.compile(expression)
		if err != nil {
			c.params.err = cmp.Or(c.params.err, err)
			continue
		}
		c.regexpOverrides = append(c.regexpOverrides, group{params: c.readParams(over), patterns: []*regexp.Regexp{p}})
	}
}

// groupParamsOf returns the parameters of the config_groups of compressed-tensors that name the layer at a path. If no group
// names the layer, or if there is only one group, it returns the parameters of all groups. It returns nil if there are no
// groups.
func (c *Config) groupParamsOf(path []byte) (named []params) {
	var all []params
	for i := range c.configGroups {
		g := &c.configGroups[i]
		all = append(all, g.params)
		if g.namesLayer(path) {
			named = append(named, g.params)
		}
	}
	if named == nil {
		return all
	}
	return named
}

// paramsOf returns the parameters of the layer at a path: the parameters for all layers, changed by an override. It takes the override
// of exactly this path, or else the override of the first regular expression that matches the path. The override changes bits, group
// size, format, symmetry and error, as far as it has them. An override of MLX, or one that says "not quantized", replaces all
// parameters.
func (c *Config) paramsOf(path []byte) params {
	over, ok := c.overrideOf(path)
	for i := 0; i < len(c.regexpOverrides) && !ok; i++ {
		if ok = c.regexpOverrides[i].namesLayer(path); ok {
			over = c.regexpOverrides[i].params
		}
	}
	p := c.params
	switch {
	case !ok:
		return p
	case over.notQuantized || c.quantMethod == "mlx":
		return over
	}
	if over.groupSize != 0 || over.groupIsRow {
		p.groupSize, p.groupIsRow = over.groupSize, over.groupIsRow
	}
	p.bits, p.format = cmp.Or(over.bits, p.bits), cmp.Or(over.format, p.format)
	p.symmetric, p.err = cmp.Or(over.symmetric, p.symmetric), cmp.Or(over.err, p.err)
	return p
}

// namesLayer reports whether a layer's path is one of the group's exact names, or matches one of its expressions. A target
// that names layers by their class fits no path.
func (g *group) namesLayer(path []byte) bool {
	return g.exactNames[string(path)] || slices.ContainsFunc(g.patterns, func(p *regexp.Regexp) bool { return p.Match(path) })
}
