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
