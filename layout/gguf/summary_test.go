package gguf

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// TestSummaryReadsLittle wants the summary of a remote file not to fetch the vocabulary for the
// sake of its length.
func TestSummaryReadsLittle(t *testing.T) {
	in := &layouttest.Recorder{Input: header(2, 100_000)}
	f := format.MustDecode(t, in.Input.(layout.Bytes))
	facts, err := f.Summary(in)
	if err != nil {
		t.Fatal(err)
	}
	if last := facts[len(facts)-1]; last != (layout.Fact{Label: "tokenizer", Value: "100000 tokens"}) {
		t.Errorf("the last fact is %q", last)
	}
	if n := in.Total(); n > 64 {
		t.Errorf("read %d bytes of %d", n, in.Size())
	}
}
