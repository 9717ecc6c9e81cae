package odd

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/grid"
)

// narrow stands between a number and its unit.
const narrow = "\u202f"

// where names the role of tensors, their layers and their experts: "`output.dense`, layers 0–3".
func (s *figures) where(numbers []int) string { return where(s.Index, numbers) }

// where names the role of tensors in x, their layers and their experts.
func where(x *grid.Index, numbers []int) string {
	title := quote(x.Title(numbers[0]))
	if x.RoleNumber(numbers[0]) < 0 {
		return title
	}
	layers, experts := make(map[int]bool), []int{}
	for _, n := range numbers {
		layers[x.Rows[n].Layer] = true
		experts = append(experts, x.Rows[n].Expert)
	}
	text := title + ", " + inLayers(x, numbers)
	if experts[0] >= 0 {
		list, n := grid.Ranges(experts)
		if n == 1 {
			return text + ", expert " + list
		}
		return text + ", experts " + list
	}
	return text
}

// quote returns a name between backquotes. Those within become apostrophes.
func quote(name string) string {
	const longest = 120
	if len(name) > longest {
		name = "…" + strings.ToValidUTF8(name[len(name)-longest:], "")
	}
	return "`" + strings.ReplaceAll(name, "`", "'") + "`"
}

// layers names the layers of tensors.
func (s *figures) layers(numbers []int) string { return inLayers(s.Index, numbers) }

// inLayers names the layers of tensors: "all layers" if they are, and there are several.
func inLayers(x *grid.Index, numbers []int) string {
	var layers []int
	for _, n := range numbers {
		layers = append(layers, x.Rows[n].Layer)
	}
	slices.Sort(layers)
	if layers = slices.Compact(layers); len(layers) > 1 && len(layers) == len(x.Grid.Layers) {
		return "all layers"
	}
	return grid.Layers(layers)
}

// place returns where the largest values of tensors lie, if that is the same index of the hidden axis: "in row 99". Else
// it returns "".
func (s *figures) place(numbers []int) string {
	index, axis := uint64(0), -1
	for i, n := range numbers {
		a, t := s.HiddenAxis(n), s.stats[n]
		if a < 0 || a >= len(t.MaxSigmaAt) || t.Sampled || i > 0 && (a != axis || t.MaxSigmaAt[a] != index) {
			return ""
		}
		axis, index = a, t.MaxSigmaAt[a]
	}
	rank := len(s.Rows[numbers[0]].Shape)
	switch {
	case rank == 2 && axis == 0:
		return fmt.Sprintf("in row %d", index)
	case rank == 2:
		return fmt.Sprintf("in column %d", index)
	}
	return fmt.Sprintf("at index %d", index)
}

// coordinates returns where the largest value of a tensor lies: "[99, 856]", or "position 0, index 99" of embeddings.
func (s *figures) coordinates(n int) string {
	at := s.stats[n].MaxSigmaAt
	first := map[string]string{"embeddings of positions": "position", "embeddings of tokens": "token", "embeddings of token types": "type"}[s.Common(n)]
	if first != "" && len(at) == 2 {
		return fmt.Sprintf("%s %d, index %d", first, at[0], at[1])
	}
	if len(at) == 1 {
		return fmt.Sprintf("index %d", at[0])
	}
	var each []string
	for _, i := range at {
		each = append(each, strconv.FormatUint(i, 10))
	}
	return "[" + strings.Join(each, ", ") + "]"
}

// spanOf says from what to what a figure of tensors goes.
func (s *figures) spanOf(numbers []int, figure func(*answer.TensorStat) float64, format func(float64) string) string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, n := range numbers {
		low, high = min(low, figure(s.stats[n])), max(high, figure(s.stats[n]))
	}
	return span(low, high, format)
}

// span says from what to what something goes: "79 to 175", or "16" if both are written so.
func span(low, high float64, format func(float64) string) string {
	if format(low) == format(high) {
		return format(high)
	}
	return format(low) + " to " + format(high)
}

// span says what spanOf does, with the unit σ, and ≥ before a bound.
func (s *figures) span(numbers []int, figure func(*answer.TensorStat) float64, format func(float64) string) string {
	return s.sign(numbers, "≥ ") + s.spanOf(numbers, figure, format) + narrow + "σ"
}

// sign returns sampled if a figure of tensors is of a sample: "≥ " of a bound, "≈ " of an estimate. Else it returns "".
func (s *figures) sign(numbers []int, sampled string) string {
	if slices.ContainsFunc(numbers, func(n int) bool { return s.stats[n].Sampled }) {
		return sampled
	}
	return ""
}

// sigmas writes a number of σ: with one decimal below 10, with none above.
func sigmas(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// short writes a factor like sigmas.
func short(v float64) string { return sigmas(v) }

// tenths writes a number with one decimal.
func tenths(v float64) string {
	text := strconv.FormatFloat(v, 'f', 1, 64)
	if text == "-0.0" {
		return "0.0"
	}
	return strings.Replace(text, "-", "−", 1)
}

// digits writes a number with three significant digits.
func digits(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strings.Replace(strconv.FormatFloat(v, 'g', -1, 64), "-", "−", 1)
	}
	exponent := int(math.Floor(math.Log10(math.Abs(v))))
	if exponent < -4 || exponent > 5 {
		text := strconv.FormatFloat(v, 'e', 2, 64)
		mantissa, e, _ := strings.Cut(text, "e")
		n, _ := strconv.Atoi(e)
		return strings.ReplaceAll(fmt.Sprintf("%se%d", mantissa, n), "-", "−")
	}
	return strings.Replace(strconv.FormatFloat(v, 'f', max(0, 2-exponent), 64), "-", "−", 1)
}

// percent writes a share with three significant digits.
func percent(v float64) string { return digits(100*v) + narrow + "%" }

// ratio says how many times usual a value is: "12 ×", "1/77 ×".
func ratio(v, usual float64) string {
	if v >= usual {
		return short(v/usual) + " ×"
	}
	return "1/" + short(usual/v) + " ×"
}

// thousands writes a number with commas.
func thousands(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// amount writes a number with three significant digits and a letter for thousands, millions and so on.
func amount(n uint64) string {
	if n < 1000 {
		return strconv.FormatUint(n, 10)
	}
	v := float64(n)
	for _, unit := range []string{"k", "M", "G", "T", "P", "E"} {
		if v /= 1000; v < 999.5 {
			decimals := 2
			if v >= 99.95 {
				decimals = 0
			} else if v >= 9.995 {
				decimals = 1
			}
			return strconv.FormatFloat(v, 'f', decimals, 64) + narrow + unit
		}
	}
	return strconv.FormatUint(n, 10)
}
