package scheme

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// An answer is what a configuration says of one layer.
type answer struct {
	layer []byte   // its path
	own   params   // what holds for it
	named []params // of the groups that name it, if there are several groups
}

// An override is what a configuration says of the layer at a path. There may be very many: parameters are made
// of it when they are asked for.
type override struct {
	path string
	says any // an object, false, or parameters that Ollama has a name for
}

// override returns what the configuration says of the layer at exactly this path. If it says so several times, the
// last counts. ok is false if it says nothing.
func (c *Config) override(path []byte) (p params, ok bool) {
	// after is the position of the first path that is greater: c.over is sorted.
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
		p, _ = says.read()
	case bool:
		p.plain = true
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

// readGroup adds a config_group: its parameters, and its targets, which are names or regular expressions (re:). The
// error says why it is not known which layers a target means.
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
	c.groups, c.all = append(c.groups, g), append(c.all, g.params)
	return unread
}

// countNamesOrSetErr counts n more names of layers. If all are more than maxNames, it sets c.Err, which refuses all
// weights, and returns false.
func (c *Config) countNamesOrSetErr(n int) bool {
	if c.named += n; c.named > maxNames {
		c.Err = unsupported("the configuration names %d layers, more than %d", c.named, maxNames)
	}
	return c.named <= maxNames
}

// readOverrides reads what an object says of the layers whose paths are its keys.
func (c *Config) readOverrides(q layout.Metadata) {
	if !c.countNamesOrSetErr(len(q)) {
		return
	}
	c.over = slices.Grow(c.over, len(q))
	for _, e := range q {
		if _, ok := e.Value.(layout.Metadata); ok || e.Value == false {
			c.over = append(c.over, override{e.Key, e.Value})
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

// addPattern adds what an object says of the layers that a regular expression names. If the expression cannot be
// read, it sets c.params.err: any layer may be meant.
func (c *Config) addPattern(text string, says layout.Metadata) {
	p, err := c.regexps.compile(text)
	if err != nil {
		c.params.err = cmp.Or(c.params.err, err)
		return
	}
	c.dynamic = append(c.dynamic, group{params: c.readParams(says), patterns: []*regexp.Regexp{p}})
}

// ask returns what the configuration says of the layer at a path. The answer is valid until the next call, and is
// returned again for the same layer.
func (c *Config) ask(layer []byte) *answer {
	a := &c.last
	if a.layer != nil && bytes.Equal(layer, a.layer) {
		return a
	}
	a.layer, a.own, a.named = append(a.layer[:0], layer...), c.of(layer), a.named[:0]
	for i := 0; i < len(c.groups) && len(c.groups) > 1; i++ { // a single group holds for all layers
		if g := &c.groups[i]; g.names(layer) {
			a.named = append(a.named, g.params)
		}
	}
	return a
}

// of returns the parameters of the layer at a path: those for all, replaced by what its own override says, or else
// the first regular expression that names it.
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
	if over.plain || c.method == "mlx" && ok { // MLX's overrides inherit nothing
		return over
	}
	if over.group != 0 || over.whole {
		p.group, p.whole = over.group, over.whole
	}
	p.bits, p.format, p.symmetric, p.err = cmp.Or(over.bits, p.bits), cmp.Or(over.format, p.format), cmp.Or(over.symmetric, p.symmetric), cmp.Or(over.err, p.err)
	return p
}

// names reports whether g names the layer itself, rather than layers of its class.
func (g *group) names(layer []byte) bool {
	return g.exact[string(layer)] || slices.ContainsFunc(g.patterns, func(p *regexp.Regexp) bool { return p.Match(layer) })
}
