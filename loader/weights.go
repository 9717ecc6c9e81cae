package loader

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/scheme"
)

// findWeights finds the logical tensors of a model that is being opened. It finds none with Options.Stored, or if a key is missing. If
// names of tensors look like the names of quantized weights, it reads the configuration. It then reads small tensors too, whose elements
// are a weight's shape. A malformed weight gets a Problem and is no error: findWeights fails only if reading does.
func (m *Model) findWeights(ctx context.Context) error {
	lacksKey := slices.ContainsFunc(m.files, func(f *file) bool {
		a, ok := f.layout.(*apr2.File)
		return ok && a.Encryption != nil && f.decrypted == nil
	})
	if m.opts.Stored || lacksKey {
		return nil
	}
	table, err := scheme.Find(ctx, m.tensors, m.names, m.opts.Limits.WithDefaults(), checkpoint{m})
	if err != nil || table.Len() == 0 {
		return err
	}
	if table.Unmatched > 0 {
		m.log(slog.LevelWarn, "the quantization configuration names layers that the model does not have", "layers", table.Unmatched, "first", table.UnmatchedPath)
	}
	m.weightTable, m.weightStates = table, make(states, table.Len())
	return nil
}

// checkpoint is a model that is being opened, as the source of its schemes.
type checkpoint struct {
	model *Model
}

// Config reads what the model's metadata and the files beside it say about its quantization. If their content is malformed, Err of the
// result and s.model.quantization.err say so. Config itself fails only if reading does.
func (s checkpoint) Config(ctx context.Context) (*scheme.Config, error) {
	conf, err := s.config(ctx)
	if formatErrorIn(err) != nil || errors.Is(err, ErrTooLarge) {
		conf, err = &scheme.Config{Err: err}, nil
	}
	if err != nil {
		return nil, err
	}
	s.model.quantization.err = conf.Err
	return conf, nil
}

// config returns the quantization that the model's files describe. It reads config.json. If that does not mention quantization, config
// reads the first of scheme.Files that lies beside a SafeTensors model. It also reads objects that package convert has put into the
// metadata. If the two contradict each other, Err of the result says so. For a GGUF file, config returns what configInGGUF does. It
// stores what lies beside the model in m.quantization.described. It fails if reading or parsing does.
func (s checkpoint) config(ctx context.Context) (*scheme.Config, error) {
	m := s.model
	if m.Format() == layout.GGUF {
		return m.configInGGUF(ctx)
	}
	c, err := m.configuration(ctx)
	if err != nil {
		return nil, err
	}
	beside := scheme.ReadConfig(c.besideModel...)
	all := slices.Clip(c.objects)
	if !beside.MentionsQuantization() && m.Format() == layout.SafeTensors {
		for _, file := range scheme.Files {
			md, err := m.objectBeside(ctx, file.Name)
			if err != nil {
				return nil, err
			}
			if md != nil {
				md = file.ConfigJSON(md)
				beside, all = scheme.ReadConfig(append(c.besideModel, md)...), append(all, md)
				break
			}
		}
	}
	m.quantization.described = beside.QuantizationObject()
	conf := scheme.ReadConfig(all...)
	conf.Err = cmp.Or(conf.Err, checkSameQuantization(beside.QuantizationObject(), scheme.ReadConfig(c.fromConversion...).QuantizationObject()))
	return conf, nil
}

// configInGGUF returns the quantization that package convert has described in a GGUF file: in carriedKeys behind APR2's prefix. It reads
// only these keys, since all metadata may be long. m has one file, of format GGUF. It fails if reading or parsing does.
func (m *Model) configInGGUF(ctx context.Context) (*scheme.Config, error) {
	f := m.files[0]
	g := f.layout.(interface {
		Get(in layout.Input, key string) (any, bool, error)
	})
	var md layout.Metadata
	for _, key := range carriedKeys {
		v, ok, err := g.Get(f.input(ctx), apr2.CarriedPrefix+key)
		if err != nil {
			return nil, inFile(f.path, err)
		}
		if ok {
			md.Set(apr2.CarriedPrefix+key, v)
		}
	}
	var c Config
	if err := m.addConverted(&c, md); err != nil {
		return nil, err
	}
	return scheme.ReadConfig(c.fromConversion...), nil
}

// checkSameQuantization compares two descriptions of a model's quantization: beside is in the files beside the model, and own in the model's
// own metadata. It returns layout.ErrInvalid if they differ. It returns nil if one of them is nil.
func checkSameQuantization(beside, own layout.Metadata) error {
	if beside == nil || own == nil {
		return nil
	}
	for _, e := range slices.Concat(beside, own) {
		a, _ := beside.Get(e.Key)
		b, _ := own.Get(e.Key)
		there, err := layout.EncodeJSON(a)
		here, err2 := layout.EncodeJSON(b)
		if err := cmp.Or(err, err2); err != nil || !bytes.Equal(there, here) {
			return fmt.Errorf("%w: the quantization in config.json and in the file's own metadata differ, in %s: %s and %s; "+
				"without the files beside it the metadata count, and convert --metadata FILE replaces them", layout.ErrInvalid, e.Key, layout.Quote(there), layout.Quote(here))
		}
	}
	return nil
}

// Quantization returns what the files beside the model, such as config.json, say about how its weights are quantized: an
// object that config.json has under quantization_config. It is nil if they say nothing, or no tensor may be a part of a
// quantized weight. The error tells why they cannot be relied on.
func (m *Model) Quantization() (layout.Metadata, error) {
	return m.quantization.described, m.quantization.err
}

// Contents returns the elements of small stored tensors. tensors has their positions in the model, and the result has the same order. All
// elements lie in one allocation. Contents reads tensors in the order of the files. Raw tensors that come over a network go into a plan,
// which reads neighbours by one request. It fails if reading does, or if checkReadable refuses a tensor.
func (s checkpoint) Contents(ctx context.Context, tensors []uint32) ([][]byte, error) {
	type small struct {
		Tensor
		at int // position in tensors
	}
	contents, inOrder := make([][]byte, len(tensors)), make([]small, len(tensors))
	size := uint64(0)
	for at, i := range tensors {
		inOrder[at] = small{Tensor{model: s.model, index: i}, at}
		size += inOrder[at].desc().Raw
	}
	slices.SortFunc(inOrder, func(a, b small) int { return compareOffsets(a.Tensor, b.Tensor) })
	p, memory := plan.New(0), make([]byte, size) // a plan without a limit on the bytes per second
	for k, t := range inOrder {
		n := t.desc().Raw
		b := memory[:n:n]
		contents[t.at], memory = b, memory[n:]
		st := t.state()
		// The plan reads stored bytes, which are the elements of raw tensors only. checkReadable refuses no raw tensor.
		if st.elements.Cost().MayWait && isRaw(t.desc()) {
			p.AddTensor(t.file(), t.desc().Offset, t.desc().Stored, k)
			continue
		}
		err := t.file().checkReadable(t.desc())
		if err == nil {
			err = content.Read(ctx, content.Env{}, st.elements, b, 0)
		}
		if err != nil {
			return nil, t.wrap(err)
		}
	}
	return contents, p.EachRange(ctx, filesAtOnce, func(ctx context.Context, r *plan.Range) error {
		f := r.File.(*file)
		last := inOrder[r.Tensors[len(r.Tensors)-1]].desc()
		storedOf, err := f.fetch(ctx, new([]byte), inOrder[r.Tensors[0]].desc(), 0, last, last.Stored)
		if err != nil {
			return f.Wrap(err)
		}
		for _, k := range r.Tensors {
			t := inOrder[k]
			if err := storedOf(t.desc()).ReadAt(ctx, content.Env{}, contents[t.at], 0); err != nil {
				return t.wrap(err)
			}
		}
		return nil
	})
}

// Decodable returns why package dequant cannot expand weights of the form f, or nil if it can. It returns nil for codes of
// layout.CodeBlocks: they are blocks of a dtype.
func (s checkpoint) Decodable(f *scheme.Form) error {
	if f.Code == layout.CodeBlocks {
		return nil
	}
	return dequant.Grouped(f.Grouped).Check()
}

// Ignored reports whether Options.IgnorePart is set and ignores the tensor called name.
func (s checkpoint) Ignored(name []byte) bool {
	ignore := s.model.opts.IgnorePart
	return ignore != nil && ignore(string(name))
}
