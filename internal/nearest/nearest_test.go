package nearest

import (
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	all := []string{"layers.0.weight", "layers.0.bias", "embed.Weight", "head.weight", strings.Repeat("weight", 50)}
	for name, want := range map[string][]string{
		"layers.0.wieght": {"layers.0.weight"},
		"weight":          {"head.weight", "embed.Weight", "layers.0.weight"},
		"nothing alike":   nil,
		"":                nil,
	} {
		if got := Names(slices.Values(all), name); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestHint(t *testing.T) {
	all := slices.Values([]string{"a.weight", "b.weight", "\"odd\""})
	for name, want := range map[string]string{
		"a.wieght": `; did you mean "a.weight"?`,
		"weight":   `; did you mean "a.weight", "b.weight"?`,
		"odd":      `; did you mean "\"odd\""?`,
		"else":     "",
	} {
		if got := Hint(all, name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
