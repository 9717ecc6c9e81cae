package loader

import (
	"context"
	"errors"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// TestParseKeepsNoDeadline: one caller's deadline is not the answer for all later ones.
func TestParseKeepsNoDeadline(t *testing.T) {
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	p := new(parsedOnce)
	if _, err := p.parse(ctx, "x", nil, func(context.Context) (layout.Metadata, error) { cancel(late); return nil, late }); !errors.Is(err, late) {
		t.Error(err)
	}
	if _, err := p.parse(t.Context(), "x", nil, func(context.Context) (layout.Metadata, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
}

// TestParseNamesFile: a call whose context ends while another parses says of which file.
func TestParseNamesFile(t *testing.T) {
	p, parsing, end := new(parsedOnce), make(chan struct{}), make(chan struct{})
	go p.parse(t.Context(), "x", nil, func(context.Context) (layout.Metadata, error) { close(parsing); <-end; return nil, nil })
	defer close(end)
	<-parsing
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if _, err := p.parse(ctx, "x", nil, nil); !errors.Is(err, late) || err.Error() != "x: late" {
		t.Error(err)
	}
}
