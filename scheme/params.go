package scheme

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

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

// size returns the integer that one of the keys has in q. ok is false if none has one. It fails if a value is no
// integer, or two keys have different ones. It skips lists, which are blocks.
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

// readParams returns what an object says of one layer or of all layers. p.err is set if it says something that
// cannot be.
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

// releasePattern is the beginning of the name of a release of compressed-tensors.
var releasePattern = regexp.MustCompile(`^([0-9]+)\.([0-9]+)`)

// readRelease sets c.release to a release of compressed-tensors, and c.isOld for those before 0.18, which leave bits
// of words unused. It fails if version is no release.
func (c *Config) readRelease(version string) error {
	c.release = version
	if version == "" {
		return nil
	}
	m := releasePattern.FindStringSubmatch(version)
	if m == nil {
		return misfit("the configuration's version of compressed-tensors is %s, no release", layout.Quote([]byte(version)))
	}
	minor, err := strconv.Atoi(m[2])
	c.isOld = m[1] == "0" && err == nil && minor < 18
	return nil
}

// object returns the object that md has for key. ok is false without one.
func object(md layout.Metadata, key string) (o layout.Metadata, ok bool) {
	v, _ := md.Get(key)
	o, ok = v.(layout.Metadata)
	return o, ok
}

// text returns the first string that md has for one of the keys, or "".
func text(md layout.Metadata, keys ...string) string {
	for _, key := range keys {
		v, _ := md.Get(key)
		if s, ok := v.(string); ok {
			return s
		}
	}
	return ""
}

// integer returns the first integer that md has for one of the keys. ok is false without one.
func integer(md layout.Metadata, keys ...string) (n int64, ok bool) {
	for _, key := range keys {
		v, _ := md.Get(key)
		if s, ok := v.(json.Number); ok {
			if i, err := strconv.ParseInt(string(s), 10, 64); err == nil {
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
