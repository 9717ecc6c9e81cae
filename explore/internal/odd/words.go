package odd

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/explore/internal/grid"
	"github.com/tensormap/tensormap/internal/report"
)

// narrow stands between a number and its unit.
const narrow = "\u202f"

// where names the role of tensors, their layers and their experts: "`output.dense`, layers 0–3".
func (f *finder) where(numbers []int) string {
	text := quote(f.Title(numbers[0]))
	if f.RoleNumber(numbers[0]) < 0 {
		return text
	}
	text += ", " + f.layers(numbers)
	if f.Rows[numbers[0]].Expert < 0 {
		return text
	}
	var experts []int
	for _, n := range numbers {
		experts = append(experts, f.Rows[n].Expert)
	}
	return text + ", " + grid.Numbered("expert", experts)
}

// quote returns a name between backquotes. Backquotes within become apostrophes.
func quote(name string) string {
	const longest = 120
	if len(name) > longest {
		name = "…" + strings.ToValidUTF8(name[len(name)-longest:], "")
	}
	return "`" + strings.ReplaceAll(name, "`", "'") + "`"
}

// layers names the layers of tensors: "all layers" if they are, and there are several.
func (f *finder) layers(numbers []int) string {
	var layers []int
	for _, n := range numbers {
		layers = append(layers, f.Rows[n].Layer)
	}
	slices.Sort(layers)
	if layers = slices.Compact(layers); len(layers) > 1 && len(layers) == len(f.Grid.Layers) {
		return "all layers"
	}
	return grid.Numbered("layer", layers)
}

// coordinates names the place of the largest value of a tensor, whose common role is given: "[99, 856]", or "position 0, index 99"
// of embeddings.
func coordinates(at []uint64, common string) string {
	first := map[string]string{"embeddings of positions": "position", "embeddings of tokens": "token", "embeddings of token types": "type"}[common]
	switch {
	case first != "" && len(at) == 2:
		return fmt.Sprintf("%s %d, index %d", first, at[0], at[1])
	case len(at) == 1:
		return fmt.Sprintf("index %d", at[0])
	}
	return report.IndexText(at)
}

// fromTo says from what to what a figure of things goes: "79 to 175", or "16" if both are written so.
func fromTo[T any](list []T, figure func(T) float64, format func(float64) string) string {
	low, high := extremes(list, figure)
	if format(low) == format(high) {
		return format(high)
	}
	return format(low) + " to " + format(high)
}

// damage says of the error of a tensor how it was found.
func damage(text string) string {
	if strings.Contains(text, "checksum") {
		return "checksum"
	}
	return "cannot be read"
}

// upper returns text with a capital letter.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// sigmas writes a number of σ, or a factor: with one decimal below 10, with none above.
func sigmas(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// minus writes the sign of numbers in text as people do.
func minus(text string) string { return strings.ReplaceAll(text, "-", "−") }

// tenths writes a number with one decimal.
func tenths(v float64) string {
	text := strconv.FormatFloat(v, 'f', 1, 64)
	if text == "-0.0" {
		return "0.0"
	}
	return minus(text)
}

// digits writes a number with three significant digits.
func digits(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return minus(strconv.FormatFloat(v, 'g', -1, 64))
	}
	exponent := int(math.Floor(math.Log10(math.Abs(v))))
	if exponent < -4 || exponent > 5 {
		mantissa, e, _ := strings.Cut(strconv.FormatFloat(v, 'e', 2, 64), "e")
		n, _ := strconv.Atoi(e)
		return minus(fmt.Sprintf("%se%d", mantissa, n))
	}
	return minus(strconv.FormatFloat(v, 'f', max(0, 2-exponent), 64))
}

// percent writes a share with three significant digits.
func percent(v float64) string { return digits(100*v) + narrow + "%" }

// ratio says how many times usual a value is: "12 ×", "1/77 ×".
func ratio(v, usual float64) string {
	if v >= usual {
		return sigmas(v/usual) + " ×"
	}
	return "1/" + sigmas(usual/v) + " ×"
}

// amount writes a number with three significant digits and a letter for thousands, millions and so on.
func amount(n uint64) string { return report.Scaled(n, narrow, "kMGTPE") }
