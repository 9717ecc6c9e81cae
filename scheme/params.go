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
	bits, groupSize uint64
	groupIsRow      bool // the group is a whole row
	strategy        string
	format          string // the value of the method's second key: format, mode, quant_algo or data_type
	intOrFloat      string // int or float, of compressed-tensors' codes
	hasActOrder     bool   // compressed-tensors' groups are not consecutive (actorder)
	symmetric       answer // GPTQ's zero points are all in the middle
	blockSides      [2]uint64
	notQuantized    bool // not quantized
	hasZeroPoints   bool // there are zero points
	err             error
}

// answer is what a configuration answers to a question of yes or no.
type answer uint8

const (
	unset answer = iota
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

// sizeAt returns the integer that q has for one of keys, which are names of one parameter. ok is false if it has none. It fails if a
// value is no integer, or if two keys have different integers. A list under one of blockKeys has sides of a block, and is skipped.
func sizeAt(q layout.Metadata, keys []string) (n int64, ok bool, err error) {
	for _, key := range keys {
		v, _ := q.Get(key)
		_, isList := v.([]any)
		if v == nil || isList && slices.Contains(blockKeys, key) {
			continue
		}
		i, isInteger := integer(q, key)
		switch {
		case !isInteger:
			return 0, false, invalidf("the configuration says %s of %v, no integer", key, v)
		case ok && i != n:
			return 0, false, invalidf("the configuration says %s of %d, and %s of %d", keys[0], n, key, i)
		}
		n, ok = i, true
	}
	return n, ok, nil
}

// readParams returns the parameters that an object of the configuration has for one layer or for all. p.err says what
// is out of range or of the wrong type.
func (c *Config) readParams(q layout.Metadata) (p params) {
	keys, ok := sizeKeys[c.quantMethod]
	if !ok {
		keys = sizeKeys["gptq"]
	}
	bits, said, err := sizeAt(q, keys.bits)
	group, grouped, err2 := sizeAt(q, keys.group)
	p.err = cmp.Or(err, err2)
	if said {
		p.bits = uint64(bits)
		if bits < 1 || bits > 16 {
			p.err = invalidf("the configuration says %d bits", bits)
		}
	}
	switch {
	case !grouped, group == 0 && c.quantMethod == "auto-round": // 0 means one group for all
	case group == -1:
		p.groupIsRow = true
	case group < 1:
		p.err = invalidf("the configuration says a group size of %d", group)
	default:
		p.groupSize = uint64(group)
	}
	order, _ := q.Get("actorder")
	p.hasActOrder = order == true || order == "group" || order == "dynamic"
	p.strategy, p.intOrFloat, p.format = text(q, "strategy"), text(q, "type"), strings.ToLower(text(q, cmp.Or(secondKeys[c.quantMethod].key, "mode")))
	symmetric, _ := q.Get("symmetric")
	p.hasZeroPoints = symmetric == false
	if sym, ok := q.Get("sym"); ok && sym != nil {
		switch sym {
		case true:
			p.symmetric = yes
		case false:
			p.symmetric = no
		default:
			p.err = invalidf("the configuration says sym of %v, neither true nor false", sym)
		}
	}
	for _, key := range blockKeys {
		sides, ok := q.Get(key)
		_, single := sides.(json.Number)
		if !ok || sides == nil || key == "block_structure" && p.strategy != "block" || key == "group_size" && single {
			continue
		}
		if list, ok := layout.As[[]uint64](sides); ok && len(list) == 2 {
			p.blockSides = [2]uint64(list)
		}
		if p.blockSides[0] == 0 || p.blockSides[1] == 0 {
			text, _ := layout.EncodeJSON(sides)
			p.err = invalidf("the configuration's %s is %s, not two sizes", key, text)
		}
	}
	return p
}

// releasePattern is the beginning of the name of a release of compressed-tensors.
var releasePattern = regexp.MustCompile(`^([0-9]+)\.([0-9]+)`)

// readRelease sets c.release to a release of compressed-tensors, and c.isOldRelease for those before 0.18, which leave bits
// of words unused. It fails if version is no release.
func (c *Config) readRelease(version string) error {
	c.release = version
	if version == "" {
		return nil
	}
	m := releasePattern.FindStringSubmatch(version)
	if m == nil {
		return invalidf("the configuration's version of compressed-tensors is %s, no release", layout.Quote([]byte(version)))
	}
	minor, err := strconv.Atoi(m[2])
	c.isOldRelease = m[1] == "0" && err == nil && minor < 18
	return nil
}

// object returns the object that md has for key. ok is false without one.
func object(md layout.Metadata, key string) (o layout.Metadata, ok bool) {
	v, _ := md.Get(key)
	o, ok = v.(layout.Metadata)
	return o, ok
}

// text returns the string that md has for a key, or "".
func text(md layout.Metadata, key string) string {
	v, _ := md.Get(key)
	s, _ := v.(string)
	return s
}

// integer returns the integer that md has for a key. ok is false without one.
func integer(md layout.Metadata, key string) (n int64, ok bool) {
	v, _ := md.Get(key)
	return layout.As[int64](v)
}
