package scheme

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMethodsAreDocumented: the table of docs/quantized.md has every method, format and type that is known, and no other method.
func TestMethodsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../docs/quantized.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "| `quant_method` |")
	text, _, _ = strings.Cut(text, "\n\n")
	said := map[string][]string{"": nil} // by method; a row without one goes on
	method := ""
	for _, row := range strings.Split(text, "\n")[2:] {
		cells := strings.Split(row, "|")
		names := regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(cells[1], -1)
		for _, m := range names {
			method = m[1]
			if schemesOfMethod[method] == nil && method != "quantization" {
				t.Errorf("%s is documented and not known", method)
			}
			said[method] = nil
		}
		if strings.Contains(row, "MLX") {
			method = "mlx"
		}
		for _, m := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(cells[2], -1) {
			said[method] = append(said[method], strings.ToLower(m[1]))
		}
	}
	known := map[string][]string{"awq": slices.Collect(maps.Keys(awqVersions)), "mlx": slices.AppendSeq([]string{"affine"}, maps.Keys(mlxModes))}
	for method, formats := range gptqFormats {
		known[method] = slices.AppendSeq(known[method], maps.Keys(formats))
	}
	for method, d := range secondKeys {
		known[method] = slices.AppendSeq(known[method], maps.Keys(d.schemes))
	}
	for method := range schemesOfMethod {
		list, ok := said[method]
		if !ok {
			t.Errorf("%q is not documented", method)
		}
		for _, value := range known[method] {
			if value != "" && !slices.ContainsFunc(list, func(s string) bool {
				begin, cut := strings.CutSuffix(s, "…")
				return s == value || cut && strings.HasPrefix(value, begin)
			}) {
				t.Errorf("%s: %s is not documented", method, value)
			}
		}
	}
}
