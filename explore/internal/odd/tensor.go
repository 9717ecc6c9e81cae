package odd

import (
	"fmt"
	"math"
	"slices"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/grid"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader/survey"
)

// OfTensor says what is odd about one tensor, whose figures with their histogram are exact, and returns its Odd. Findings
// of the model, as far as they are known, are repeated if they name the tensor.
func OfTensor(x *grid.Index, stat *answer.TensorStat, model []answer.Finding) (findings []answer.Finding, odd int) {
	findings = []answer.Finding{}
	if odd = outlier(stat); odd > isFine {
		findings = append(findings, answer.Finding{Rule: "outlier", Severity: odd, Text: largest(stat, x.Common(stat.Number)),
			Evidence: sigmas(excess(stat)) + " × what Gaussian values reach", Tensors: []int{stat.Number}})
	}
	for _, f := range model {
		if slices.Contains(f.Tensors, stat.Number) && f.Rule != "outlier" && f.Severity > isFine {
			findings = append(findings, f)
			odd = max(odd, min(f.Severity, isStrong))
		}
	}
	return findings, odd
}

// largest says how far out the largest value of a tensor lies, whose common role is given. If no other is half as far, it says
// what σ would be without it, else how many those are.
func largest(stat *answer.TensorStat, common string) string {
	value := float64(stat.Max)
	if float64(stat.Mean)-float64(stat.Min) > value-float64(stat.Mean) {
		value = float64(stat.Min)
	}
	farthest := sigmas(float64(stat.MaxSigma)) + narrow + "σ"
	at := fmt.Sprintf("%s at %s", digits(value), coordinates(stat.MaxSigmaAt, common))
	if n, edge := beyond(stat.SigmaHistogram, float64(stat.MaxSigma)/2); n > 1 {
		return fmt.Sprintf("**Largest value of %s:** %s. %s values lie beyond %.1f%sσ.", farthest, at, report.Grouped(n), edge, narrow)
	}
	n, std, distance := float64(stat.Finite), float64(stat.Std), value-float64(stat.Mean)
	without := math.Sqrt(max(0, n*std*std/(n-1)-n*distance*distance/((n-1)*(n-1))))
	return fmt.Sprintf("**One value of %s:** %s. Without it σ would be %s instead of %s.", farthest, at, digits(without), digits(std))
}

// beyond returns how many values a histogram by σ counts in bins that lie farther than sigma from the mean as a whole. edge is that of
// the nearest of these bins.
func beyond(histogram []uint64, sigma float64) (n uint64, edge float64) {
	edge = math.Inf(1)
	for i, count := range histogram {
		if from := max(survey.SigmaEdge(i), -survey.SigmaEdge(i+1)); from >= sigma {
			n, edge = n+count, min(edge, from)
		}
	}
	return n, edge
}
