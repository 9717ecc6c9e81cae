package loader

import (
	"context"
	"errors"
	"testing"
)

// TestParseKeepsNoDeadline: one caller's deadline is not the answer for all later ones.
func TestParseKeepsNoDeadline(t *testing.T) {
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	p := newParsedOnce()
	if md := p.parse(ctx, "x", func(*metadata) error { cancel(late); return late }); !errors.Is(md.err, late) {
		t.Error(md.err)
	}
	if md := p.parse(t.Context(), "x", func(*metadata) error { return nil }); md.err != nil {
		t.Error(md.err)
	}
}
