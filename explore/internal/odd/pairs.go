package odd

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/grid"
	"github.com/tensormap/tensormap/internal/report"
)

// The bounds of the rules about comparisons, in decibels.
const (
	strongLoss, mildLoss = -6, -3
	superBlock           = 256 // values of a row that K-quants store at once
	maxLengths           = 3   // of rows that are named
)

// Comparison is what is known of two models.
type Comparison struct {
	Index *grid.Index // of the reference
	Pairs []answer.Pair
	Asked string // what B says it is quantized as: "Q4_K_M"; ""
	Done  bool   // all pairs are known
}

// pairs are the pairs of a comparison, with what was found.
type pairs struct {
	finder
	Comparison
	known []*answer.Pair
}

// InPairs says what two models differ in. Report.Odd has the numbers of pairs.
func InPairs(c Comparison) Report {
	p := pairs{finder: finder{Index: c.Index, odd: make(map[int]int)}, Comparison: c}
	for i := range c.Pairs {
		p.known = append(p.known, &c.Pairs[i])
	}
	p.broken()
	p.missing()
	p.losses()
	p.lowest()
	p.otherTypes()
	return p.report(p.fine())
}

// numbersOf returns the numbers of pairs.
func numbersOf(list []*answer.Pair) []int {
	numbers := []int{}
	for _, one := range list {
		numbers = append(numbers, one.Number)
	}
	return numbers
}

// addOf adds a finding about pairs of one role, which text does not name.
func (p *pairs) addOf(rule string, severity, order int, weight float64, list []*answer.Pair, text, evidence string) {
	where, numbers := quote(list[0].Name), numbersOf(list)
	if list[0].Number < len(p.Rows) { // A has it
		where = p.where(numbers)
	}
	p.add(rule, severity, order, weight, numbers, where+": "+text, evidence)
}

// byType returns the pairs that keep lets through, by role and by B's type.
func (p *pairs) byType(keep func(*answer.Pair) bool) [][]*answer.Pair {
	type group struct {
		role  int
		typeB string
	}
	return groups(p.known, keep, func(one *answer.Pair) group { return group{p.role(one.Number), one.TypeB} })
}

// isCompared reports whether a pair has figures.
func isCompared(one *answer.Pair) bool {
	return one.OnlyIn == "" && !one.OtherShape && one.Error == ""
}

// broken finds pairs that cannot be read.
func (p *pairs) broken() {
	for _, list := range groups(p.known, func(one *answer.Pair) bool { return one.Error != "" }, func(one *answer.Pair) int { return p.role(one.Number) }) {
		p.addOf("damaged", isBroken, 0, 0, list, "damaged", damage(list[0].Error))
	}
}

// isZeroInA reports whether all values of A are 0 and some of B are not.
func isZeroInA(one *answer.Pair) bool { return math.IsInf(float64(one.DB), -1) }

// missing finds tensors that one model has alone, and tensors that cannot be measured against each other.
func (p *pairs) missing() {
	inBoth := func(one *answer.Pair) bool { return one.OnlyIn == "" }
	if p.Done && len(p.known) > 0 && !slices.ContainsFunc(p.known, inBoth) {
		p.add("no name in both", isStrong, 1, 0, []int{}, "**No tensor has the same name in both**", "llama.cpp renames tensors: compare with what convert wrote")
		return
	}
	for _, kind := range []struct {
		words string
		keep  func(*answer.Pair) bool
	}{
		{"only in A", func(one *answer.Pair) bool { return one.OnlyIn == "a" }},
		{"only in B", func(one *answer.Pair) bool { return one.OnlyIn == "b" }},
		{"another shape in B", func(one *answer.Pair) bool { return one.OtherShape }},
		{"NaN or infinite in one alone", func(one *answer.Pair) bool { return one.Lost > 0 }},
		{"all zero in A", isZeroInA},
	} {
		list := slices.DeleteFunc(slices.Clone(p.known), func(one *answer.Pair) bool { return !kind.keep(one) })
		if len(list) == 0 {
			continue
		}
		const named = 3
		var names []string
		for _, one := range list[:min(len(list), named)] {
			names = append(names, quote(one.Name))
		}
		text := fmt.Sprintf("**%s:** %s", upper(kind.words), strings.Join(names, ", "))
		if len(list) > named {
			text += fmt.Sprintf(" and %s more", report.Grouped(len(list)-named))
		}
		p.add(kind.words, isStrong, 1, 0, numbersOf(list), text, report.Counted(len(list), "tensor"))
	}
}

// decibels returns the DB of a pair.
func decibels(one *answer.Pair) float64 { return float64(one.DB) }

// relativeRMS returns the RelativeRMS of a pair.
func relativeRMS(one *answer.Pair) float64 { return float64(one.RelativeRMS) }

// below returns how many decibels a pair keeps more than its type does of Gaussian values, or NaN.
func below(one *answer.Pair) float64 { return float64(one.DB) - float64(one.TypeDB) }

// loss returns how severe it is that a pair keeps less than its type does of Gaussian values.
func loss(one *answer.Pair) int {
	switch b := below(one); {
	case !isCompared(one) || one.Same || isZeroInA(one):
		return isFine
	case b <= strongLoss:
		return isStrong
	case b <= mildLoss:
		return isMild
	}
	return isFine
}

// losses finds tensors that lose more than their type costs.
func (p *pairs) losses() {
	for _, severity := range []int{isStrong, isMild} {
		for _, list := range p.byType(func(one *answer.Pair) bool { return loss(one) == severity }) {
			worst, _ := extremes(list, below)
			text := fmt.Sprintf("%s dB, up to %s below what %s keeps of Gaussian values", fromTo(list, decibels, tenths), tenths(-worst), list[0].TypeB)
			p.addOf("dB below its type", severity, 2, -worst, list, text, fmt.Sprintf("rule: %d dB, strong from %d", -mildLoss, -strongLoss))
		}
	}
}

// lowest finds the role and type with the lowest decibels, unless another rule has named it. Without a type that explains
// the error it finds the role that changed most.
func (p *pairs) lowest() {
	roles := p.byType(func(one *answer.Pair) bool {
		return isCompared(one) && !one.Same && !math.IsNaN(decibels(one)) && !math.IsInf(decibels(one), 0)
	})
	if len(roles) < 2 {
		return
	}
	lowest := func(list []*answer.Pair) float64 { low, _ := extremes(list, decibels); return low }
	list := slices.MinFunc(roles, func(a, b []*answer.Pair) int { return cmp.Compare(lowest(a), lowest(b)) })
	loss, _ := extremes(list, below)
	switch {
	case math.IsNaN(loss) || math.IsInf(loss, 0):
		var changes []float64
		for _, one := range slices.Concat(roles...) {
			changes = append(changes, relativeRMS(one))
		}
		evidence := ""
		if m := median(changes); !math.IsNaN(m) {
			evidence = "median of what differs: " + percent(m)
		}
		low := lowest(list)
		list = slices.DeleteFunc(list, func(one *answer.Pair) bool { return decibels(one) > low-mildLoss })
		_, most := extremes(list, relativeRMS)
		p.addOf("changed most", isMild, 4, 0, list, "changed most, by up to "+percent(most), evidence)
	case loss > mildLoss:
		they, evidence := "They are", "no less than its type keeps"
		if len(list) == 1 {
			they = "It is"
		}
		if loss < -0.05 {
			evidence = fmt.Sprintf("the values cost at most %s dB more", tenths(-loss))
		}
		p.addOf("lowest", isMild, 3, 0, list, fmt.Sprintf("%s dB, the lowest. %s %s, which keeps %s of Gaussian values", fromTo(list, decibels, tenths), they,
			list[0].TypeB, tenths(float64(list[0].TypeDB))), evidence)
	}
}

// stepsIn has the types that llama.cpp takes in place of others where rows are no multiple of 256: of Q2_K and Q3_K by its version.
var stepsIn = map[string][]string{"Q2_K": {"Q4_0", "IQ4_NL"}, "Q3_K": {"Q4_0", "IQ4_NL"}, "Q4_K": {"Q5_0"}, "Q5_K": {"Q5_1"}, "Q6_K": {"Q8_0"}, "IQ4_XS": {"IQ4_NL"}}

// otherTypes finds tensors that are stored in what stands in for the type that was asked for, as their rows are no multiple of 256.
// Other types are chosen on purpose: the types of a mix such as Q4_K_M, or what stands in for them.
func (p *pairs) otherTypes() {
	asked := p.Asked
	if i := strings.Index(asked, "_K"); i > 0 {
		asked = asked[:i+len("_K")] // without _S, _M, _L
	}
	var list []*answer.Pair
	rows, types := make(map[int]bool), make(map[string]float64)
	askedBits := math.NaN()
	for _, one := range p.known {
		if one.TypeB == asked {
			askedBits = float64(one.Bits)
		}
		if !isCompared(one) || one.Number >= len(p.Rows) || one.TypeA == one.TypeB || !slices.Contains(stepsIn[asked], one.TypeB) {
			continue
		}
		shape := p.Rows[one.Number].Shape
		if len(shape) < 2 || shape[len(shape)-1]%superBlock == 0 {
			continue
		}
		rows[shape[len(shape)-1]], types[one.TypeB] = true, float64(one.Bits)
		list = append(list, one)
	}
	if len(list) == 0 {
		return
	}
	lengths := strings.Fields(strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(rows))), "[]"))
	if len(lengths) > maxLengths {
		lengths = append(lengths[:maxLengths], "…")
	}
	var bits []string
	names := slices.Sorted(maps.Keys(types))
	for _, name := range names {
		bits = append(bits, fmt.Sprintf("%.2f", types[name]))
	}
	matrices := fmt.Sprintf("%s matrices", report.Grouped(len(list)))
	if len(list) == 1 {
		matrices = "1 matrix"
	}
	text := fmt.Sprintf("**Asked for %s, got %s:** %s, as rows of %s are no multiple of %d", asked, strings.Join(names, " or "), matrices,
		strings.Join(lengths, ", "), superBlock)
	evidence := strings.Join(bits, " or ") + " bits"
	if !math.IsNaN(askedBits) {
		evidence += fmt.Sprintf(" instead of %.2f", askedBits)
	}
	p.add("another type", isMild, 5, 0, numbersOf(list), text, evidence)
}

// fine says that nothing differs, or that no tensor lost more than its type costs. It returns nil if that is not so, or
// not known yet.
func (p *pairs) fine() *answer.Finding {
	if !p.Done || len(p.known) == 0 {
		return nil
	}
	isAlike := true           // all pairs are
	quantized := ""           // "quantized ", if tensors of types that cost nothing differ too
	var furthest *answer.Pair // below what its type keeps
	for _, one := range p.known {
		isAlike = isAlike && isCompared(one) && one.Same
		if !isCompared(one) {
			continue
		}
		if one.Lost > 0 || isZeroInA(one) {
			return nil
		}
		if math.IsNaN(float64(one.TypeDB)) && !one.Same && !math.IsInf(decibels(one), 1) {
			quantized = "quantized "
		}
		if b := below(one); !math.IsNaN(b) && !math.IsInf(b, 0) && (furthest == nil || b < below(furthest)) {
			furthest = one
		}
	}
	switch {
	case isAlike:
		text := fmt.Sprintf("**Nothing differs:** all %s are stored alike", report.Counted(len(p.known), "tensor"))
		return &answer.Finding{Rule: "checked", Text: text, Tensors: []int{}}
	case furthest == nil || below(furthest) <= mildLoss:
		return nil
	}
	text := "**No " + quantized + "tensor lost more than its type costs**"
	if b := below(furthest); b < -0.05 {
		text += fmt.Sprintf(": the furthest is %s, %s dB below what %s keeps", p.where([]int{furthest.Number}), tenths(-b), furthest.TypeB)
	}
	return &answer.Finding{Rule: "checked", Text: text, Evidence: fmt.Sprintf("rule: %d dB", -mildLoss), Tensors: []int{}}
}
