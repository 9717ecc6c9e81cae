package loader

import (
	"context"
	"fmt"

	"github.com/tensormap/tensormap/layout"
)

// Summary returns a few facts for people from the first file, as its format chooses them. It returns nil if the
// format has none, and fails if reading does.
func (l *Lease) Summary() ([]layout.Fact, error) {
	return readWhileOpen(context.Background(), l.model, l, func(ctx context.Context) ([]layout.Fact, error) {
		f := l.model.files[0]
		s, ok := f.layout.(layout.Summarizer)
		if !ok {
			return nil, nil
		}
		facts, err := s.Summary(f.data.Input(ctx))
		return facts, f.Wrap(err)
	})
}

// Graph returns the computation graph that the model's file holds in addition to its tensors. Formats
// without graphs are ErrUnsupported.
func (l *Lease) Graph() (*layout.Graph, error) {
	return readWhileOpen(context.Background(), l.model, l, func(ctx context.Context) (*layout.Graph, error) {
		f := l.model.files[0]
		g, ok := f.layout.(layout.Grapher)
		if !ok {
			return nil, f.Wrap(fmt.Errorf("%w: %v files hold no graph that this reads", ErrUnsupported, f.index.Format))
		}
		graph, err := g.Graph(f.data.Input(ctx))
		return graph, f.Wrap(err)
	})
}
