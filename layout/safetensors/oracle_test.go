package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// The oracle decodes headers slowly with encoding/json, as a second opinion on which
// are right and what they say. It shares no code with the decoder. Where encoding/json
// is looser than the format it looks first:
//
//   - invalid UTF-8, which encoding/json replaces by U+FFFD: utf8.Valid
//   - halves of surrogate pairs, likewise: loneSurrogate
//   - the order of tokens, where Decoder.Token has had gaps: json.Valid
//   - duplicate keys, any depth and any number: read from tokens, which also keeps the
//     order of keys and their case (Unmarshal ignores case)
//
// Everything else (control characters, escapes, leading zeros, commas, the end) follows
// RFC 8259 there.

// record is a tensor as oracle and decoder both can tell it.
type record struct {
	Name, DType string
	Shape       []int
	Begin, End  uint64
}

// opinion is what a header says.
type opinion struct {
	Tensors  []record
	Metadata layout.Metadata
}

var errOracle = errors.New("refused")

func oracle(header []byte, data uint64) (opinion, error) {
	var o opinion
	if start := bytes.TrimLeft(header, " \t\r\n"); len(start) == 0 || start[0] != '{' || !utf8.Valid(header) || !json.Valid(header) || loneSurrogate(header) {
		return o, fmt.Errorf("%w: JSON", errOracle)
	}
	dec := json.NewDecoder(bytes.NewReader(header))
	dec.UseNumber()
	top, err := oracleValue(dec, 1)
	if err != nil {
		return o, err
	}
	for _, e := range top.(object) {
		if e.key == "__metadata__" {
			o.Metadata, err = oracleMetadata(e.value)
		} else {
			var r record
			r, err = oracleTensor(e.key, e.value)
			o.Tensors = append(o.Tensors, r)
		}
		if err != nil {
			return o, err
		}
	}
	return o, oracleCover(o.Tensors, data)
}

// loneSurrogate walks the escapes: outside strings, valid JSON has no backslash.
func loneSurrogate(b []byte) bool {
	surrogate := func(at int, low, high uint64) bool {
		if at+6 > len(b) || b[at] != '\\' || b[at+1] != 'u' {
			return false
		}
		v, _ := strconv.ParseUint(string(b[at+2:at+6]), 16, 16)
		return low <= v && v < high
	}
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] != '\\':
		case surrogate(i, 0xd800, 0xdc00) && surrogate(i+6, 0xdc00, 0xe000):
			i += 11
		case surrogate(i, 0xd800, 0xe000):
			return true
		default:
			i++
		}
	}
	return false
}

type (
	object []member
	member struct {
		key   string
		value any
	}
	array []any
)

func oracleValue(dec *json.Decoder, depth int) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOracle, err)
	}
	delim, nested := t.(json.Delim)
	if !nested {
		return t, nil
	}
	if depth > 64 {
		return nil, fmt.Errorf("%w: depth", errOracle)
	}
	var list array
	var members object
	seen := map[string]bool{}
	for dec.More() {
		var key string
		if delim == '{' {
			k, err := dec.Token()
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errOracle, err)
			}
			if key = k.(string); seen[key] {
				return nil, fmt.Errorf("%w: duplicate %q", errOracle, key)
			}
			seen[key] = true
		}
		v, err := oracleValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		members = append(members, member{key, v})
	}
	if _, err := dec.Token(); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %w", errOracle, err)
	}
	if delim == '{' {
		return members, nil
	}
	return list, nil
}

func oracleMetadata(v any) (layout.Metadata, error) {
	if v == nil {
		return nil, nil
	}
	members, ok := v.(object)
	if !ok {
		return nil, fmt.Errorf("%w: metadata %T", errOracle, v)
	}
	var md layout.Metadata
	for _, m := range members {
		s, ok := m.value.(string)
		if !ok {
			return nil, fmt.Errorf("%w: metadata of %T", errOracle, m.value)
		}
		md = append(md, layout.Entry{Key: m.key, Value: s})
	}
	return md, nil
}

func oracleTensor(name string, v any) (record, error) {
	r := record{Name: name}
	members, ok := v.(object)
	if !ok || len(name) > 65535 || strings.Contains(name, "\x00") {
		return r, fmt.Errorf("%w: tensor %.40q", errOracle, name)
	}
	var dtype, shape, offsets any
	for _, m := range members {
		switch m.key {
		case "dtype":
			dtype = m.value
		case "shape":
			shape = m.value
		case "data_offsets":
			offsets = m.value
		}
	}
	r.DType, ok = dtype.(string)
	bits := oracleBits(r.DType)
	dims, ok1 := oracleInts(shape)
	span, ok2 := oracleInts(offsets)
	if !ok || bits == 0 || !ok1 || !ok2 || len(dims) > 64 || len(span) != 2 || span[0] > span[1] {
		return r, fmt.Errorf("%w: fields of %q", errOracle, name)
	}
	r.Shape = []int{}
	for _, n := range dims {
		if n > math.MaxInt {
			return r, fmt.Errorf("%w: shape of %q", errOracle, name)
		}
		r.Shape = append(r.Shape, int(n))
	}
	r.Begin, r.End = span[0], span[1]
	if !oracleSize(dims, bits, r.End-r.Begin) {
		return r, fmt.Errorf("%w: size of %q", errOracle, name)
	}
	return r, nil
}

func oracleBits(dtype string) uint64 {
	for _, d := range dtypesOfFormat {
		if d.name == dtype {
			return uint64(d.bits)
		}
	}
	return 0
}

// oracleInts are the elements of an array whose text is that of non-negative integers.
func oracleInts(v any) ([]uint64, bool) {
	list, ok := v.(array)
	out := []uint64{}
	for _, v := range list {
		n, isNumber := v.(json.Number)
		u, err := strconv.ParseUint(string(n), 10, 64)
		if !isNumber || err != nil { // ParseUint refuses signs, fractions and exponents
			return nil, false
		}
		out = append(out, u)
	}
	return out, ok
}

// oracleSize reports whether a tensor takes size bytes, by division.
func oracleSize(dims []uint64, bits, size uint64) bool {
	if slices.Contains(dims, 0) {
		return size == 0
	}
	if size > (1<<64-1)/8 {
		return false
	}
	left := size * 8
	for _, n := range dims {
		if left%n != 0 {
			return false
		}
		left /= n
	}
	return left == bits
}

// oracleCover takes tensors by the position where the last one ended, as long as there
// are any, empty ones first.
func oracleCover(tensors []record, data uint64) error {
	var order []record
	order = append(order, tensors...)
	slices.SortFunc(order, func(x, y record) int {
		if x.Begin != y.Begin {
			return map[bool]int{true: -1, false: 1}[x.Begin < y.Begin]
		}
		return map[bool]int{true: -1, false: 1}[x.End < y.End]
	})
	var end uint64
	for _, r := range order {
		if r.Begin != end {
			return fmt.Errorf("%w: %q begins at %d", errOracle, r.Name, r.Begin)
		}
		end = r.End
	}
	if end != data {
		return fmt.Errorf("%w: the data ends at %d", errOracle, end)
	}
	return nil
}
