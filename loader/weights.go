package loader

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/scheme"
)

// findWeights finds the logical tensors of a model that is being opened. It reads the configuration
// if there may be some, and the small tensors that tell shapes. The error is about bytes that could
// not be had: whatever else is wrong is an error of the tensor that it is about.
func (m *Model) findWeights(ctx context.Context) error {
	if m.opts.Stored || m.locked() {
		return nil
	}
	s := checkpoint{ctx, m, m.opts.Limits.WithDefaults()}
	table, err := scheme.Find(m.tensors, m.names, s.lim, &s)
	if err != nil || table.Len() == 0 {
		return err
	}
	if len(table.Wants) > 0 {
		if err := s.readWanted(table); err != nil {
			return err
		}
		table.Complete()
	}
	if table.Unmatched > 0 {
		m.log(slog.LevelWarn, "the quantization configuration names layers that the model does not have", "layers", table.Unmatched, "first", table.UnmatchedPath)
	}
	m.schemes, m.weights = table, sync.OnceValue(func() states { return make(states, table.Len()) })
	return nil
}

// checkpoint is a model that is being opened, as the source of its schemes.
type checkpoint struct {
	ctx   context.Context
	model *Model
	lim   layout.Limits
}

// Config reads what the model's metadata and the files beside it say about its quantization. Content that is malformed
// is no error: the configuration returned has it in Err. The error is that of reading.
func (s *checkpoint) Config() (*scheme.Config, error) {
	conf, err := s.config()
	if err != nil {
		if conf, err = refusedConfig(err); err != nil {
			return nil, err
		}
	}
	s.model.quantization.err = conf.Err
	return conf, nil
}

// config returns the configuration in the model's metadata and beside the model. It notes what the files beside it say
// in m.quantization.said. Err of the result tells that both disagree. The error is that of reading or parsing.
func (s *checkpoint) config() (*scheme.Config, error) {
	ctx, m := s.ctx, s.model
	if m.Format() == layout.GGUF {
		return m.configInGGUF(ctx)
	}
	c, err := m.configuration(ctx)
	if err != nil {
		return nil, err
	}
	beside := scheme.ReadConfig(c.beside...)
	all := slices.Clip(c.objects)
	if !beside.Says() && m.Format() == layout.SafeTensors {
		for _, file := range scheme.Files {
			md, err := m.objectBeside(ctx, file.Name)
			if err != nil {
				return nil, err
			}
			if md != nil {
				md = file.Object(md)
				beside, all = scheme.ReadConfig(append(c.beside, md)...), append(all, md)
				break
			}
		}
	}
	m.quantization.said = beside.Said()
	conf := scheme.ReadConfig(all...)
	conf.Err = cmp.Or(conf.Err, contradiction(beside.Said(), scheme.ReadConfig(c.carried...).Said()))
	return conf, nil
}

// configInGGUF reads the keys that package convert has added to a GGUF file. GGUF has no such configuration of its own.
// It reads only these keys, for all metadata may be long.
func (m *Model) configInGGUF(ctx context.Context) (*scheme.Config, error) {
	f := &m.files[0]
	g := f.layout.(interface {
		Get(in layout.Input, key string) (any, bool, error)
	})
	var md layout.Metadata
	for _, key := range carriedKeys {
		v, ok, err := g.Get(f.headFirst(ctx), apr2.CarriedPrefix+key)
		if err != nil {
			return nil, &fileError{f.path, err}
		}
		if ok {
			md.Set(apr2.CarriedPrefix+key, v)
		}
	}
	var c Config
	if err := m.addConverted(&c, md); err != nil {
		return nil, err
	}
	return scheme.ReadConfig(c.carried...), nil
}

// contradiction returns an error if the files beside a model and its own metadata both say how it is quantized, and not
// the same.
func contradiction(beside, own layout.Metadata) error {
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
	return m.quantization.said, m.quantization.err
}

// refusedConfig returns a configuration whose Err is err, if err is about the content or size of a file. Otherwise, as
// for bytes that could not be read, it returns err.
func refusedConfig(err error) (*scheme.Config, error) {
	if malformed(err) != nil || errors.Is(err, ErrTooLarge) {
		return &scheme.Config{Err: err}, nil
	}
	return nil, err
}

// Content fills p with the elements of a small stored tensor that tells a shape. It returns false without an error if
// they must be fetched over a network: readWanted then reads them together.
func (s *checkpoint) Content(tensor uint32, p []byte) (bool, error) {
	t := s.model.partOf(tensor)
	if t.needsFetch() {
		return false, nil
	}
	err := t.read(s.ctx, p)
	return err == nil, err
}

// Decodable reports what package dequant cannot expand.
func (s *checkpoint) Decodable(f *scheme.Form) error {
	if f.Code == layout.CodeBlocks {
		return nil
	}
	return dequant.Grouped(f.Grouped).Check()
}

// Ignored reports what Options.IgnorePart says.
func (s *checkpoint) Ignored(name []byte) bool {
	ignore := s.model.opts.IgnorePart
	return ignore != nil && ignore(string(name))
}

// needsFetch reports whether reading the tensor may wait for a network, and its stored bytes are its elements.
func (p member) needsFetch() bool { return p.s.stored.Cost().Waits && p.desc().Encoding == layout.Raw }

// read fills b with all elements.
func (p member) read(ctx context.Context, b []byte) error {
	return p.wrap(cmp.Or(p.s.err, p.s.elements.ReadAt(ctx, content.Env{}, b, 0)))
}

// readWanted reads the tensors in table.Wants into table.Contents: neighbours by one request if they come over a
// network. The error is that of reading.
func (s *checkpoint) readWanted(table *scheme.Table) error {
	type want struct {
		member
		smallTensor
	}
	wants := make([]want, len(table.Wants))
	for i, tensor := range table.Wants {
		t := s.model.partOf(tensor)
		wants[i] = want{t, make(smallTensor, t.desc().Raw)}
		table.Contents[i] = wants[i].smallTensor
	}
	slices.SortFunc(wants, func(a, b want) int { return byPlace(a.Tensor, b.Tensor) })
	p := plan.New(0)
	for _, w := range wants {
		if w.needsFetch() {
			p.AddTarget(w.file(), w.desc().Offset, w.desc().Stored, w.smallTensor)
		} else if err := w.member.read(s.ctx, w.smallTensor); err != nil {
			return err
		}
	}
	return p.Read(s.ctx, openers, &parallel.Progress{})
}

// smallTensor is memory for the elements of a small tensor.
type smallTensor []byte

// Room returns memory for n bytes of the tensor from byte at on.
func (m smallTensor) Room(at, n uint64) ([]byte, error) { return m[at:][:n], nil }

// Arrived does nothing: the bytes are where they belong.
func (m smallTensor) Arrived(context.Context, uint64, []byte) error { return nil }
