package jsontext_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// vocabulary is a JSON array of n tokens such as tokenizers have.
func vocabulary(n int) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%.*s%d"`, i%7, "tokens ", i)
	}
	b.WriteByte(']')
	return b.String()
}

func BenchmarkParse(b *testing.B) {
	const n = 50_000
	for _, tc := range []struct{ name, json string }{
		{"strings", `{"vocab":` + vocabulary(n) + `}`},
		{"escapes", `{"vocab":` + strings.ReplaceAll(vocabulary(n), `to`, `\u0120t`) + `}`},
		{"keys", `{"a":{` + members(n) + `}}`},
		{"numbers", `{"a":[` + strings.Repeat("1,", n) + `1]}`},
		{"mixed", `{"a":[` + strings.Repeat("1,", n) + `null]}`},
		{"arrays", `{"a":[` + strings.Repeat(`["a","b"],`, n) + `[]]}`},
		{"objects", `{"a":[` + strings.Repeat(`{"k":1},`, n) + `{}]}`},
	} {
		b.Run("of="+tc.name, func(b *testing.B) {
			text := []byte(tc.json)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := jsontext.Parse(text, layout.APR2, 0, "metadata", defaults()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// empties are n members that are as dense as they may be.
func empties(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%014d":{},`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// TestParseMemory: all that Parse ever allocates is a small multiple of the text.
func TestParseMemory(t *testing.T) {
	testmode.Sequential(t)
	const n, limit = 200_000, 16.0 // bytes allocated for a byte of text
	for _, tc := range []struct {
		name, json string
	}{
		{"numbers", `{"a":[` + strings.Repeat("1,", n) + `1]}`},
		{"strings", `{"a":[` + strings.Repeat(`"",`, n) + `""]}`},
		{"mixed", `{"a":[` + strings.Repeat("1,", n) + `null]}`},
		{"empty arrays", `{"a":[` + strings.Repeat("[],", n) + `[]]}`},
		{"arrays", `{"a":[` + strings.Repeat("[1],", n) + `[]]}`},
		{"empty objects", `{"a":[` + strings.Repeat("{},", n) + `{}]}`},
		{"objects", `{"a":[` + strings.Repeat(`{"":1},`, n) + `{}]}`},
		{"keys", `{"a":{` + members(n) + `}}`},
		{"members that are empty", `{"a":{` + empties(n) + `}}`},
		{"a bracket in a string", `{"a":"` + strings.Repeat("[", n) + `"}`},
		{"objects in objects", `{"a":` + strings.Repeat(`{"":`, 60) + `{` + members(n) + `}` + strings.Repeat(`}`, 61)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var before, after runtime.MemStats
			text := []byte(tc.json)
			runtime.ReadMemStats(&before)
			md, err := jsontext.Parse(text, layout.APR2, 0, "metadata", defaults())
			runtime.ReadMemStats(&after)
			if err != nil || len(md) == 0 {
				t.Fatal(md, err)
			}
			got := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(text))
			t.Logf("%.1f bytes for one", got)
			if got > limit {
				t.Errorf("%.1f bytes for one of text, want at most %.1f", got, limit)
			}
		})
	}
}
