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
	groupIsRow      bool // a group is a whole row
	strategy        string
	format          string    // the value of the method's second key: format, mode, quant_algo or data_type
	intOrFloat      string    // int or float, of compressed-tensors' codes
	hasActOrder     bool      // compressed-tensors' groups are not consecutive (actorder)
	symmetric       answer    // whether GPTQ's zero points are all in the middle
	blockSides      [2]uint64 // rows and columns of a block that shares a scale
	notQuantized    bool      // the layer is not quantized
	hasZeroPoints   bool      // there are zero points
	err             error     // why the parameters cannot be relied on
}

// answer is what a configuration answers to a question of yes or no.
type answer uint8

const (
	unset answer = iota
	yes
	no
)

// sizeKeys are the keys of bits and of the group size, by method; other methods have the keys of gptq. A key of another method
// says nothing to the writer.
var sizeKeys = map[string]struct{ bits, group []string }{
	"awq":                {[]string{"bits", "w_bit"}, []string{"group_size", "q_group_size"}},
	"compressed-tensors": {[]string{"num_bits"}, []string{"group_size"}},
	"gptq":               {[]string{"bits"}, []string{"group_size"}},
	"modelopt":           {[]string{"num_bits"}, []string{"group_size"}},
}

// blockKeys are the keys that may have the two sides of a block. auto-round has the sides under group_size.
var blockKeys = []string{"weight_block_size", "block_structure", "group_size"}

// integerAt returns the integer that q has under one of keys, which are names of one parameter. It returns 0 if q has none of
// keys. It skips null. It also skips a list under one of blockKeys, which has the sides of a block. It fails if a value is no
// integer, or if two keys have different integers. It also fails if isValid returns false for the integer. format is the text
// of this error, with a verb for the integer.
func integerAt(q layout.Metadata, keys []string, format string, isValid func(n int64) bool) (n int64, err error) {
	found := ""
	for _, key := range keys {
		v, _ := q.Get(key)
		_, isList := v.([]any)
		if v == nil || isList && slices.Contains(blockKeys, key) {
			continue
		}
		i, isInteger := integer(q, key)
		switch {
		case !isInteger:
			return 0, invalidf("the configuration says %s of %v, no integer", key, v)
		case found != "" && i != n:
			return 0, invalidf("the configuration says %s of %d, and %s of %d", keys[0], n, key, i)
		}
		n, found = i, key
	}
	if found != "" && !isValid(n) {
		return 0, invalidf(format, n)
	}
	return n, nil
}

// readParams returns the parameters that q, an object of the configuration, has for one layer or for all. p.err says what is
// wrong with the first faulty parameter, in this order: bits, group size, sym, sides of blocks. Other keys of the wrong type
// count as missing.
func (c *Config) readParams(q layout.Metadata) (p params) {
	keys, ok := sizeKeys[c.quantMethod]
	if !ok {
		keys = sizeKeys["gptq"]
	}
	actOrder, _ := q.Get("actorder")
	p.hasActOrder = actOrder == true || actOrder == "group" || actOrder == "dynamic" // other values leave groups consecutive
	symmetric, _ := q.Get("symmetric")
	p.hasZeroPoints = symmetric == false
	p.strategy, p.intOrFloat = text(q, "strategy"), text(q, "type")
	p.format = strings.ToLower(text(q, cmp.Or(secondKeys[c.quantMethod].key, "mode")))
	bits, bitsErr := integerAt(q, keys.bits, "the configuration says %d bits", func(n int64) bool { return 1 <= n && n <= 16 })
	size, sizeErr := integerAt(q, keys.group, "the configuration says a group size of %d", func(n int64) bool {
		return n > 0 || n == -1 || n == 0 && c.quantMethod == "auto-round" // 0: one group for the tensor, which the shape of the scale tells
	})
	p.bits, p.groupSize, p.groupIsRow = uint64(bits), uint64(max(size, 0)), size == -1
	p.err = cmp.Or(bitsErr, sizeErr, p.readSym(q), p.readBlockSides(q))
	return p
}

// readSym sets p.symmetric if q has the key sym. It fails for a value other than true, false and null.
func (p *params) readSym(q layout.Metadata) error {
	switch sym, _ := q.Get("sym"); sym {
	case nil:
	case true:
		p.symmetric = yes
	case false:
		p.symmetric = no
	default:
		return invalidf("the configuration says sym of %v, neither true nor false", sym)
	}
	return nil
}

// readBlockSides sets p.blockSides to the two integers that q has under one of blockKeys. If q has several of blockKeys, the
// last one counts. It skips a group_size of one number, and a block_structure without the strategy block. It fails if any
// other value is not two positive integers.
func (p *params) readBlockSides(q layout.Metadata) error {
	for _, key := range blockKeys {
		sides, _ := q.Get(key)
		_, isNumber := sides.(json.Number)
		if sides == nil || key == "block_structure" && p.strategy != "block" || key == "group_size" && isNumber {
			continue
		}
		list, _ := layout.As[[]uint64](sides)
		if len(list) != 2 || list[0] == 0 || list[1] == 0 {
			text, _ := layout.EncodeJSON(sides)
			return invalidf("the configuration's %s is %s, not two sizes", key, text)
		}
		p.blockSides = [2]uint64(list)
	}
	return nil
}

var releasePattern = regexp.MustCompile(`^([0-9]+)\.([0-9]+)`) // the first two numbers of a release

// readRelease sets c.isBefore018 if the method is compressed-tensors and q has a version: to yes for a release before 0.18, else to no.
// Otherwise c.isBefore018 stays unset. readRelease fails if the version does not begin with two numbers.
func (c *Config) readRelease(q layout.Metadata) error {
	release := text(q, "version")
	if c.quantMethod != "compressed-tensors" || release == "" {
		return nil
	}
	m := releasePattern.FindStringSubmatch(release)
	if m == nil {
		return invalidf("the configuration's version of compressed-tensors is %s, no release", layout.Quote(release))
	}
	c.isBefore018 = no
	if minor, err := strconv.Atoi(m[2]); m[1] == "0" && err == nil && minor < 18 {
		c.isBefore018 = yes
	}
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
