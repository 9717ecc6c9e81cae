package loader

import (
	"fmt"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Summary returns what the model's format tells a person first: nothing if the format has no
// such facts. Those of a sharded model are the first file's.
func (m *Model) Summary() ([]layout.Fact, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.leave()
	return summary(&m.files[0])
}

// Summary does what Model.Summary does, through the lease.
func (l *Lease) Summary() ([]layout.Fact, error) {
	if err := l.enter(); err != nil {
		return nil, l.wrap(err)
	}
	defer l.leave()
	return summary(l.model.files[0].during(l.ctx))
}

func summary(f *file) (facts []layout.Fact, err error) {
	s, ok := f.layout.(layout.Summarizer)
	if !ok {
		return nil, nil
	}
	err = mmapio.Guard(func() error {
		facts, err = s.Summary(f.mapping)
		return err
	})
	return facts, f.Wrap(err)
}

// Graph returns the computation graph that the model's file holds beside its tensors. Formats
// without graphs are ErrUnsupported.
func (m *Model) Graph() (*layout.Graph, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.leave()
	return graph(&m.files[0])
}

// Graph does what Model.Graph does, through the lease.
func (l *Lease) Graph() (*layout.Graph, error) {
	if err := l.enter(); err != nil {
		return nil, l.wrap(err)
	}
	defer l.leave()
	return graph(l.model.files[0].during(l.ctx))
}

func graph(f *file) (graph *layout.Graph, err error) {
	g, ok := f.layout.(layout.Grapher)
	if !ok {
		return nil, f.Wrap(fmt.Errorf("%w: %v files hold no graph that this reads", ErrUnsupported, f.index.Format))
	}
	err = mmapio.Guard(func() error {
		graph, err = g.Graph(f.mapping)
		return err
	})
	return graph, f.Wrap(err)
}
