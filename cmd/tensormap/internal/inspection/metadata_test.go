package inspection

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

func TestMetadataFacts(t *testing.T) {
	long := strings.Repeat("x", 60) + "y" + strings.Repeat("z", 1e6)
	many := make([]float32, 1000)
	md := layout.Metadata{
		{Key: "text", Value: "a \"b\"\nc"},
		{Key: "number", Value: json.Number("1e400")},
		{Key: "null", Value: nil},
		{Key: "yes", Value: true},
		{Key: "deep", Value: layout.Metadata{
			{Key: "er", Value: layout.Metadata{{Key: "x", Value: uint64(1)}}},
			{Key: "none", Value: layout.Metadata{}},
		}},
		{Key: "list", Value: []any{json.Number("1"), "a\x1b", nil, []any{}, layout.Metadata{{Key: "k"}}}},
		{Key: "many", Value: many},
		{Key: "long", Value: long},
		{Key: "longs", Value: []string{long, long, long}},
	}
	want := map[string]string{
		"text": `a "b"\nc`, "number": "1e400", "null": "null", "yes": "true",
		"deep.er.x": "1", "deep.none": "{}",
		"list": `[1, "a\x1b", null, [], {1 keys}]`,
		"many": "[0, 0, 0, 0, 0, 0, 0, 0, …] 1,000 items",
		"long": strings.Repeat("x", 50) + "…" + strings.Repeat("z", 49),
	}
	got := make(map[string]string)
	for _, fact := range metadataFacts("", md) {
		got[fact[0]] = fact[1]
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %s, want %s", key, got[key], value)
		}
	}
	if n := len([]rune(got["longs"])); n > metadataWidth {
		t.Errorf("longs: %d characters: %s", n, got["longs"])
	}
	if len(got) != len(want)+1 {
		t.Errorf("%d facts: %v", len(got), got)
	}
}

func TestMetadataManyKeys(t *testing.T) {
	var vocab layout.Metadata
	for i := range 30000 {
		vocab = append(vocab, layout.Entry{Key: fmt.Sprint("token", i), Value: i})
	}
	facts := metadataFacts("", layout.Metadata{{Key: "vocab", Value: vocab}, {Key: "after", Value: "x"}})
	if len(facts) != metadataKeys+2 || facts[metadataKeys] != [2]string{"vocab.…", "29,936 more keys"} {
		t.Errorf("%d facts, then %v", len(facts), facts[metadataKeys])
	}
}
