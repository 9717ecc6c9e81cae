package loader

import (
	"fmt"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Summary is what the model's format tells a person of the model first; nothing where the
// format has no such thing to tell. Of a sharded model it is the first file's.
func (m *Model) Summary() (facts []layout.Fact, err error) {
	err = m.describe(func(f *file) (err error) {
		if s, ok := f.layout.(layout.Summarizer); ok {
			facts, err = s.Summary(f.mapping)
		}
		return err
	})
	return facts, err
}

// Graph is the computation graph that the model's file holds beside its tensors, for
// formats that have one; others are ErrUnsupported.
func (m *Model) Graph() (graph *layout.Graph, err error) {
	err = m.describe(func(f *file) (err error) {
		g, ok := f.layout.(layout.Grapher)
		if !ok {
			return fmt.Errorf("%w: %v files hold no graph that this reads", ErrUnsupported, f.index.Format)
		}
		graph, err = g.Graph(f.mapping)
		return err
	})
	return graph, err
}

// describe lets ask read the first file.
func (m *Model) describe(ask func(f *file) error) error {
	if !m.gate.enter() {
		return m.closedError()
	}
	defer m.leave()
	f := &m.files[0]
	if err := mmapio.Guard(func() error { return ask(f) }); err != nil {
		return &fileError{f.path, err}
	}
	return nil
}
