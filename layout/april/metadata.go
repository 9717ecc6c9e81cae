package april

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// Metadata returns the header and the parameters, under the specification's names:
// language_tag, name, description and model, and under params the parameters, with tokens
// as a []string behind them. round_pow2 and snip_edges are the numbers of the file: any
// number but 0 means true.
func (f *File) Metadata(in layout.Input) (layout.Metadata, error) {
	md, err := f.readTexts(in)
	if err != nil {
		return nil, err
	}
	p, err := f.readParams(in)
	if err != nil {
		return nil, err
	}
	params := make(layout.Metadata, 0, numParams+1)
	for i, field := range p.fields() {
		params = append(params, layout.Entry{Key: field.name, Value: p.numbers[i]})
	}
	params = append(params, layout.Entry{Key: "tokens", Value: p.tokens})
	return append(md, layout.Entry{Key: "model", Value: uint32(modelType)}, layout.Entry{Key: "params", Value: params}), nil
}

// Config returns the parameters in md.
func (f *File) Config(md layout.Metadata) layout.Metadata {
	config, _ := layout.Get[layout.Metadata](md, "params")
	return config
}

// readTexts reads the texts of the header: language, name and description. They end at their first NUL, as C strings. It fails if one is over the
// limit of headers or not UTF-8.
func (f *File) readTexts(in layout.Input) (layout.Metadata, error) {
	md := layout.Metadata{{Key: "language_tag"}, {Key: "name"}, {Key: "description"}}
	for i, e := range []Entry{{atHeader, languageSize}, f.name, f.description} {
		field := md[i].Key
		b, err := layout.LimitedRegion(in, layout.April, e.Offset, field, e.Offset, e.Size, f.lim.HeaderBytes)
		if err != nil {
			return nil, err
		}
		text, _, _ := strings.Cut(string(b), "\x00") // a copy first: b may be mapped, and change
		if !utf8.ValidString(text) {
			return nil, layout.Errorf(layout.April, e.Offset, field, layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote(text))
		}
		md[i].Value = text
	}
	return md, nil
}

// The numbers of Params in the order of the file.
const (
	batchSize = iota
	segmentSize
	segmentStep
	melFeatures
	sampleRate
	frameShift
	frameLength
	roundPow2
	melLow
	melHigh
	snipEdges
	tokenCount
	blankToken
	numParams
)

// params is a file's Params.
type params struct {
	numbers [numParams]int32
	tokens  []string
	end     uint64 // where they end in the file
}

// paramField is the name of a number and its bounds.
type paramField struct {
	name   string
	lo, hi int32
}

// fields returns the names of the numbers and their bounds: the names of the specification, else the names of april-asr. Some depend on
// other numbers. mel_high may also be 0, which stands for half of the sample rate.
func (p *params) fields() [numParams]paramField {
	n := &p.numbers
	return [numParams]paramField{
		batchSize:   {"batch_size", 1, 1},
		segmentSize: {"segment_size", 1, 99},
		segmentStep: {"segment_step", 1, n[segmentSize]},
		melFeatures: {"mel_features", 1, 255},
		sampleRate:  {"samplerate", 1, 143_999},
		frameShift:  {"frame_shift_ms", 1, n[frameLength]},
		frameLength: {"frame_length_ms", 1, 5000},
		roundPow2:   {"round_pow2", math.MinInt32, math.MaxInt32},
		melLow:      {"mel_low", 1, n[sampleRate] - 1},
		melHigh:     {"mel_high", n[melLow] + 1, math.MaxInt32},
		snipEdges:   {"snip_edges", math.MinInt32, math.MaxInt32},
		tokenCount:  {"token_count", 1, 16_383},
		blankToken:  {"blank_token_id", 0, n[tokenCount] - 1},
	}
}

// readParams reads the parameters and tokens. It fails if a number is out of its bounds, or a token is not UTF-8.
func (f *File) readParams(in layout.Input) (*params, error) {
	e := f.Params
	c := layout.NewCursor(in, layout.April, e.Offset, e.Size)
	if m := c.Take("magic", uint64(len(paramsMagic))); c.Err() == nil && string(m) != paramsMagic {
		c.Fail(e.Offset, "magic", layout.ErrInvalid, "%q, not %q", m, paramsMagic)
	}
	p := &params{}
	at := c.Offset()
	for i, field := range p.fields() {
		p.numbers[i] = c.I32(field.name)
	}
	for i, field := range p.fields() {
		if v := p.numbers[i]; (v < field.lo || v > field.hi) && (i != melHigh || v != 0) {
			c.Fail(at+4*uint64(i), field.name, layout.ErrInvalid, "%d, not %d to %d", v, field.lo, field.hi)
		}
	}
	p.readTokens(&c, f.lim.HeaderBytes)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// readTokens reads the tokens, as substrings of one string of at most limit bytes. It sets c's error if a token leaves that or is not UTF-8.
func (p *params) readTokens(c *layout.Cursor, limit uint64) {
	const lengthSize = 4
	at, count := c.Offset(), int(p.numbers[tokenCount])
	if c.Err() != nil || !c.Fits(at-8, "token_count", uint64(count), lengthSize) {
		return
	}
	p.end = at
	list, _ := layout.CutStrings(string(c.Take("tokens", min(c.Left(), limit))), count, lengthSize)
	for i, token := range list {
		if !utf8.ValidString(token) {
			c.Fail(p.end+lengthSize, "token", layout.ErrInvalid, "token %d: %s is not valid UTF-8", i, layout.Quote(token))
		}
		p.end += uint64(lengthSize + len(token))
	}
	if len(list) < count {
		c.Fail(p.end, "token_length", layout.ErrTruncated, "token %d leaves the parameters, or the tokens have more than %d bytes", len(list), limit)
	}
	p.tokens = list
}

// Summary returns the name of the model, its language, and its networks.
func (f *File) Summary(in layout.Input) ([]layout.Fact, error) {
	md, err := f.Metadata(in)
	if err != nil {
		return nil, err
	}
	fact := func(label, format string, keys ...string) layout.Fact { // of parameters, or else texts
		values := make([]any, len(keys))
		for i, key := range keys {
			v, ok := md.Get("params", key)
			if !ok {
				v, _ = md.Get(key)
			}
			values[i] = v
		}
		return layout.Fact{Label: label, Value: fmt.Sprintf(format, values...)}
	}
	var networks []string
	for _, n := range f.Networks {
		line := fmt.Sprintf("%s: %d bytes, %d initializers", n.Role, n.Size, n.Initializers)
		if n.Err != nil {
			line = fmt.Sprintf("%s: %d bytes, not an ONNX model", n.Role, n.Size)
		}
		networks = append(networks, line)
	}
	return []layout.Fact{
		fact("name", "%s", "name"),
		fact("description", "%s", "description"),
		fact("language", "%s", "language_tag"),
		fact("model type", modelTypeName),
		fact("sample rate", "%d Hz", "samplerate"),
		fact("features", "%d mel bands, frames of %d ms every %d ms", "mel_features", "frame_length_ms", "frame_shift_ms"),
		fact("tokens", "%d, the blank is %d", "token_count", "blank_token_id"),
		{Label: "networks", Value: strings.Join(networks, "\n")},
	}, nil
}
