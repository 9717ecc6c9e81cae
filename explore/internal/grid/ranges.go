package grid

import (
	"slices"

	"github.com/tensormap/tensormap/internal/report"
)

// Numbered names things by their numbers: "layers 0–3, 7", "layer 5".
func Numbered(thing string, numbers []int) string {
	text, n := Ranges(numbers)
	if n != 1 {
		thing += "s"
	}
	return thing + " " + text
}

// Ranges writes numbers as ranges, ascending: "0–3, 7, 8". It returns how many numbers there are. Beyond six ranges it writes how many
// more numbers there are.
func Ranges(numbers []int) (text string, n int) {
	numbers = slices.Clone(numbers)
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	return report.Ranges(numbers, "–", ", ", 6), len(numbers)
}
