package grid

import (
	"fmt"
	"slices"
	"strings"
)

// maxRanges bounds the ranges that Ranges writes.
const maxRanges = 6

// Layers names layers as ranges: "layers 0–3, 7", "layer 5".
func Layers(layers []int) string {
	text, n := Ranges(layers)
	if n == 1 {
		return "layer " + text
	}
	return "layers " + text
}

// Ranges writes numbers as ranges, ascending, two in a row as single ones: "0–3, 7, 8". It returns how many numbers there
// are. Beyond maxRanges ranges it writes how many more numbers there are.
func Ranges(numbers []int) (text string, n int) {
	numbers = slices.Clone(numbers)
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	var parts []string
	for i := 0; i < len(numbers); {
		if len(parts) == maxRanges {
			parts = append(parts, fmt.Sprintf("%d more", len(numbers)-i))
			break
		}
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if j < i+2 {
			j = i
			parts = append(parts, fmt.Sprint(numbers[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d–%d", numbers[i], numbers[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", "), len(numbers)
}
