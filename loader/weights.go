package loader

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/scheme"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/mmapio"
)

// findWeights finds the logical tensors of a model that is being opened. It reads the configuration
// if there may be some, and the small tensors that tell shapes. The error is about bytes that could
// not be had: whatever else is wrong is kept with the tensor that it is about.
func (m *Model) findWeights(ctx context.Context) error {
	if m.opts.Stored || m.locked() {
		return nil
	}
	s := checkpoint{ctx, m, m.brief(ctx), m.opts.Limits.WithDefaults()}
	s.lease.files = m.filesDuring(ctx)
	defer s.lease.Release()
	var table *scheme.Table
	err := mmapio.Guard(func() (err error) {
		table, err = scheme.Find(m.tensors, m.names, s.lim, &s)
		return err
	})
	if err != nil || table.Len() == 0 {
		return err
	}
	if len(table.Wants) > 0 {
		if err := s.read(table); err != nil {
			return err
		}
		table.Complete()
	}
	m.schemes, m.weights = table, sync.OnceValue(func() []weight { return make([]weight, table.Len()) })
	return nil
}

// checkpoint is a model that is being opened, as the source of its schemes.
type checkpoint struct {
	ctx   context.Context
	model *Model
	lease *Lease
	lim   layout.Limits
}

// Config reads what the files beside the model say about its quantization.
func (s *checkpoint) Config() (*scheme.Config, error) {
	ctx, m := s.ctx, s.model
	if m.Format() == layout.GGUF { // which has no such configuration, and long metadata
		return scheme.ReadConfig(), nil
	}
	c, err := m.configuration(ctx)
	if err != nil {
		return refusedConfig(err)
	}
	conf := scheme.ReadConfig(c.objects...)
	if conf.Says() || m.Format() != layout.SafeTensors {
		return conf, nil
	}
	md, err := m.objectBeside(ctx, "hf_quant_config.json") // of ModelOpt
	switch {
	case err != nil:
		return refusedConfig(err)
	case md == nil:
		return conf, nil
	}
	return scheme.ReadConfig(append(slices.Clip(c.objects), md)...), nil
}

// refusedConfig returns a configuration that cannot be relied on because of err, or err itself if it
// is about bytes that could not be had.
func refusedConfig(err error) (*scheme.Config, error) {
	if malformed(err) != nil || errors.Is(err, ErrTooLarge) {
		return &scheme.Config{Err: err}, nil
	}
	return nil, err
}

// Content reads a small tensor that tells a shape, if its bytes need not be waited for.
func (s *checkpoint) Content(tensor uint32, p []byte) (bool, error) {
	t := s.model.handle(&s.model.tensors[tensor], 0, s.lease)
	if t.asksAfar() {
		return false, nil
	}
	err := func() error {
		if !t.inPlace() {
			return t.readAt(p, 0)
		}
		b, err := t.file.content.Slice(t.desc.Offset, t.desc.Raw)
		copy(p, b) // findWeights guards all at once
		return err
	}()
	if err != nil {
		return false, t.wrap(err)
	}
	return true, nil
}

// Decodable reports what package dequant cannot expand.
func (s *checkpoint) Decodable(f *scheme.Form) error {
	if f.Code == layout.CodeBlocks {
		return nil
	}
	return dequant.Grouped(f.Grouped).Check()
}

// asksAfar reports whether the tensor's bytes, as they are stored, are asked for over a network.
func (t Tensor) asksAfar() bool { return t.file.waits() && t.desc.Encoding == layout.Raw }

// there reports whether all of the tensor's bytes, as they are stored, have come from afar and are kept by this system.
func (t Tensor) there() bool {
	b, ok := t.file.reader.(BackedReaderAt)
	return ok && !t.logical() && b.Has(t.desc.Offset, t.desc.Stored)
}

// read reads the contents that have to be waited for, neighbours by one request.
func (s *checkpoint) read(table *scheme.Table) error {
	order := make([]int, len(table.Wants))
	for i := range order {
		order[i] = i
	}
	at := func(i int) *layout.Tensor { return &s.model.tensors[table.Wants[i]] }
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(at(a).File, at(b).File), cmp.Compare(at(a).Offset, at(b).Offset))
	})
	p := plan.New(0)
	for _, i := range order {
		t := s.model.handle(at(i), 0, s.lease)
		b := make([]byte, t.desc.Raw)
		table.Contents[i] = b
		if t.asksAfar() {
			p.AddTarget(t.file.afar(), t.desc.Offset, t.desc.Stored, content(b))
		} else if err := t.readAt(b, 0); err != nil {
			return t.wrap(err)
		}
	}
	return p.Read(s.ctx, openers, &parallel.Progress{})
}

// content is memory for a small tensor.
type content []byte

// Room returns memory for n bytes of the tensor from byte at on.
func (c content) Room(at, n uint64) ([]byte, error) { return c[at:][:n], nil }

// Arrived does nothing: the bytes are where they belong.
func (c content) Arrived(context.Context, uint64, []byte) error { return nil }
