package fuzz

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
	"github.com/tensormap/tensormap/scheme"
)

// FuzzScheme finds the quantized weights among the tensors of a text, for libFuzzer. Its first line
// is config.json. Any other is a tensor: name, type, dimensions and content, divided by spaces.
func FuzzScheme(b []byte) int {
	config, rest, _ := bytes.Cut(b, []byte("\n"))
	lim := (*layout.Limits)(nil).WithDefaults()
	var tensors []layout.Tensor
	var contents [][]byte
	names := layout.NewNames(bytes.Count(rest, []byte("\n")) + 1)
	for line := range bytes.SplitSeq(rest, []byte("\n")) {
		words := append(bytes.SplitN(line, []byte(" "), 4), nil, nil, nil)
		d, ok := layout.ParseDType(string(words[1]))
		if !ok {
			continue
		}
		t := layout.Tensor{Name: words[0], DType: d}
		for dim := range strings.SplitSeq(string(words[2]), ",") {
			if n, err := strconv.ParseUint(dim, 10, 31); err == nil {
				t.Shape = append(t.Shape, int(n))
			}
		}
		raw, err := d.Size(t.Shape)
		if err != nil || names.Enter(layout.HashNameBytes(t.Name), len(tensors), func(i int) bool { return bytes.Equal(tensors[i].Name, t.Name) }) >= 0 {
			continue
		}
		t.Raw, t.Stored = raw, raw
		tensors, contents = append(tensors, t), append(contents, words[3])
	}
	conf := &scheme.Config{}
	if md, err := jsontext.Parse(config, layout.Unknown, 0, "config.json", lim); err != nil {
		conf.Err = err
	} else {
		conf = scheme.ReadConfig(md)
	}
	findWeights(tensors, names, lim, checkpoint{conf, tensors, contents})
	return 1
}

// checkpoint is a source of contents in memory.
type checkpoint struct {
	config   *scheme.Config
	tensors  []layout.Tensor
	contents [][]byte
}

// Config returns the configuration, and no error.
func (c checkpoint) Config(context.Context) (*scheme.Config, error) { return c.config, nil }

// Decodable lets any form pass.
func (c checkpoint) Decodable(*scheme.Form) error { return nil }

// Ignored returns false: no tensor is ignored.
func (c checkpoint) Ignored([]byte) bool { return false }

// Contents returns the contents of tensors, cut or padded with zeros to their sizes.
func (c checkpoint) Contents(_ context.Context, tensors []uint32) (list [][]byte, err error) {
	for _, i := range tensors {
		b := make([]byte, c.tensors[i].Raw)
		copy(b, c.contents[i])
		list = append(list, b)
	}
	return list, nil
}

// findWeights finds the weights among tensors, and panics if they break a promise of package scheme.
func findWeights(tensors []layout.Tensor, names *layout.Names, lim layout.Limits, source checkpoint) {
	table, err := scheme.Find(context.Background(), tensors, names, lim, source)
	if err != nil {
		panic(err)
	}
	for i := range table.Len() {
		w := table.Weight(i)
		if _, isPart := table.WeightOf(table.Codes(i)); !isPart || w.Parts[0].Role != scheme.Codes {
			panic(fmt.Sprintf("%s: parts %v", w.Name, w.Parts))
		}
		if w.Err != nil {
			continue
		}
		codes := &tensors[w.Parts[0].Tensor]
		if n, ok := layout.Elements(w.Shape); !ok || n > 8*codes.Raw {
			panic(fmt.Sprintf("%s: shape %v of %d bytes of codes", w.Name, w.Shape, codes.Raw))
		}
		for _, p := range w.Parts {
			if owner, ok := table.WeightOf(p.Tensor); !ok || owner != i {
				panic(fmt.Sprintf("%s: tensor %q is another's", w.Name, tensors[p.Tensor].Name))
			}
		}
	}
}

// FuzzQuantState reads b as bitsandbytes' description of a weight, for libFuzzer.
func FuzzQuantState(b []byte) int {
	names := layout.NewNames(3)
	state := "w.quant_state.bitsandbytes__nf4"
	tensors := []layout.Tensor{
		{Name: []byte("w"), DType: layout.U8, Shape: []int{65, 1}, Raw: 65},
		{Name: []byte(state), DType: layout.U8, Shape: []int{len(b)}, Raw: uint64(len(b))},
		{Name: []byte("w.absmax"), DType: layout.F32, Shape: []int{3}, Raw: 12},
	}
	for i := range tensors {
		names.Enter(layout.HashNameBytes(tensors[i].Name), i, func(int) bool { return false })
	}
	findWeights(tensors, names, (*layout.Limits)(nil).WithDefaults(), checkpoint{scheme.ReadConfig(), tensors, [][]byte{1: b, 2: nil}})
	return 1
}
