package loader

import (
	"context"
	"fmt"

	"github.com/tensormap/tensormap/layout"
)

// Summary returns what the model's format tells a person first: nothing if the format has no
// such facts. Those of a sharded model are the first file's.
func (m *Model) Summary() ([]layout.Fact, error) { return holding(context.Background(), m, summary) }

// Summary does what Model.Summary does, through the lease.
func (l *Lease) Summary() ([]layout.Fact, error) { return holding(context.Background(), l, summary) }

// summary returns the facts of the first file, or nil if its format has none.
func summary(ctx context.Context, m *Model) (facts []layout.Fact, err error) {
	f := &m.files[0]
	s, ok := f.layout.(layout.Summarizer)
	if !ok {
		return nil, nil
	}
	facts, err = s.Summary(f.data.Input(ctx))
	return facts, f.Wrap(err)
}

// Graph returns the computation graph that the model's file holds beside its tensors. Formats
// without graphs are ErrUnsupported.
func (m *Model) Graph() (*layout.Graph, error) { return holding(context.Background(), m, graph) }

// Graph does what Model.Graph does, through the lease.
func (l *Lease) Graph() (*layout.Graph, error) { return holding(context.Background(), l, graph) }

// graph returns the computation graph of the first file, or ErrUnsupported.
func graph(ctx context.Context, m *Model) (graph *layout.Graph, err error) {
	f := &m.files[0]
	g, ok := f.layout.(layout.Grapher)
	if !ok {
		return nil, f.Wrap(fmt.Errorf("%w: %v files hold no graph that this reads", ErrUnsupported, f.index.Format))
	}
	graph, err = g.Graph(f.data.Input(ctx))
	return graph, f.Wrap(err)
}
