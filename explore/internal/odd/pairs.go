package odd

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/grid"
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

// pairs are those of a comparison, with what was found.
type pairs struct {
	Comparison
	all []found
}

// InPairs says what two models differ in. Report.Odd has the numbers of pairs.
func InPairs(c Comparison) Report {
	p := pairs{Comparison: c}
	p.broken()
	p.missing()
	p.losses(isStrong)
	p.losses(isMild)
	p.lowest()
	p.otherTypes()
	r := report(p.all)
	if fine, ok := p.fine(); ok {
		r.Findings = append(r.Findings, fine)
	}
	return r
}

// add adds a finding about pairs.
func (p *pairs) add(rule string, severity, order int, weight float64, list []*answer.Pair, text, evidence string) {
	numbers := []int{}
	for _, one := range list {
		numbers = append(numbers, one.Number)
	}
	p.all = append(p.all, found{answer.Finding{Rule: rule, Severity: severity, Text: text, Evidence: evidence, Tensors: numbers}, order, weight})
}

// where names the role of pairs and their layers.
func (p *pairs) where(list []*answer.Pair) string {
	numbers := []int{}
	for _, one := range list {
		if one.Number >= len(p.Index.Rows) {
			return quote(one.Name)
		}
		numbers = append(numbers, one.Number)
	}
	return where(p.Index, numbers)
}

// roles yields the pairs that keep lets through, by role and by what key says of them, in order.
func (p *pairs) roles(key func(*answer.Pair) string, keep func(*answer.Pair) bool) (roles [][]*answer.Pair) {
	type group struct {
		role int
		key  string
	}
	places := make(map[group]int)
	for i := range p.Pairs {
		one := &p.Pairs[i]
		if !keep(one) {
			continue
		}
		g := group{-1 - one.Number, key(one)}
		if one.Number < len(p.Index.Rows) && p.Index.RoleNumber(one.Number) >= 0 {
			g.role = p.Index.RoleNumber(one.Number)
		}
		at, ok := places[g]
		if !ok {
			at = len(roles)
			places[g] = at
			roles = append(roles, nil)
		}
		roles[at] = append(roles[at], one)
	}
	return roles
}

// noKey tells all pairs of a role alike.
func noKey(*answer.Pair) string { return "" }

// typeB tells pairs of a role apart by B's type.
func typeB(one *answer.Pair) string { return one.TypeB }

// isCompared reports whether a pair has figures.
func isCompared(one *answer.Pair) bool {
	return one.OnlyIn == "" && !one.OtherShape && one.Error == ""
}

// broken finds pairs that cannot be read.
func (p *pairs) broken() {
	for _, list := range p.roles(noKey, func(one *answer.Pair) bool { return one.Error != "" }) {
		evidence := "cannot be read"
		if strings.Contains(list[0].Error, "checksum") {
			evidence = "checksum"
		}
		p.add("damaged", isBroken, 0, 0, list, p.where(list)+": damaged", evidence)
	}
}

// isZeroInA reports whether all values of A are 0 and some of B are not.
func isZeroInA(one *answer.Pair) bool { return math.IsInf(float64(one.DB), -1) }

// missing finds tensors that one model has alone, and those that cannot be measured against each other.
func (p *pairs) missing() {
	inBoth := func(one answer.Pair) bool { return one.OnlyIn == "" }
	if p.Done && len(p.Pairs) > 0 && !slices.ContainsFunc(p.Pairs, inBoth) {
		p.add("no name in both", isStrong, 1, 0, nil, "**No tensor has the same name in both**", "llama.cpp renames tensors: compare with what convert wrote")
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
		var list []*answer.Pair
		for i := range p.Pairs {
			if kind.keep(&p.Pairs[i]) {
				list = append(list, &p.Pairs[i])
			}
		}
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
			text += fmt.Sprintf(" and %s more", thousands(uint64(len(list)-named)))
		}
		p.add(kind.words, isStrong, 1, 0, list, text, count(len(list), "tensor"))
	}
}

// upper returns text with a capital letter.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// count says how many things there are.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return thousands(uint64(n)) + " " + thing
}

// below returns how many decibels a pair keeps more than its type does of Gaussian values, or NaN.
func below(one *answer.Pair) float64 { return float64(one.DB) - float64(one.TypeDB) }

// losses finds tensors that lose more than their type costs.
func (p *pairs) losses(severity int) {
	for _, list := range p.roles(typeB, func(one *answer.Pair) bool {
		b := below(one)
		return isCompared(one) && !one.Same && !isZeroInA(one) && (severity == isStrong && b <= strongLoss || severity == isMild && b <= mildLoss && b > strongLoss)
	}) {
		worst := 0.0
		for _, one := range list {
			worst = min(worst, below(one))
		}
		text := fmt.Sprintf("%s: %s dB, up to %s below what %s keeps of Gaussian values", p.where(list), decibels(list), tenths(-worst), list[0].TypeB)
		p.add("dB below its type", severity, 2, -worst, list, text, fmt.Sprintf("rule: %d dB, strong from %d", -mildLoss, -strongLoss))
	}
}

// decibels says from what to what the decibels of pairs go.
func decibels(list []*answer.Pair) string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, one := range list {
		low, high = min(low, float64(one.DB)), max(high, float64(one.DB))
	}
	return span(low, high, tenths)
}

// lowest finds the role and type with the lowest decibels, unless another rule has named it. Without a type that explains
// the error it finds the role that changed most.
func (p *pairs) lowest() {
	differs := func(one *answer.Pair) bool {
		return isCompared(one) && !one.Same && !math.IsNaN(float64(one.DB)) && !math.IsInf(float64(one.DB), 0)
	}
	roles := p.roles(typeB, differs)
	if len(roles) < 2 {
		return
	}
	worst := func(list []*answer.Pair) float64 {
		low := math.Inf(1)
		for _, one := range list {
			low = min(low, float64(one.DB))
		}
		return low
	}
	list := slices.MinFunc(roles, func(a, b []*answer.Pair) int { return compare(worst(a), worst(b)) })
	loss := math.Inf(1)
	for _, one := range list {
		loss = min(loss, below(one))
	}
	switch {
	case math.IsNaN(loss) || math.IsInf(loss, 0):
		var changes []float64
		for _, one := range slices.Concat(roles...) {
			changes = append(changes, float64(one.RelativeRMS))
		}
		most, low := 0.0, worst(list)
		list = slices.DeleteFunc(list, func(one *answer.Pair) bool { return float64(one.DB) > low-mildLoss })
		for _, one := range list {
			most = max(most, float64(one.RelativeRMS))
		}
		evidence := ""
		if m := median(changes); !math.IsNaN(m) {
			evidence = "median of what differs: " + percent(m)
		}
		p.add("changed most", isMild, 4, 0, list, fmt.Sprintf("%s: changed most, by up to %s", p.where(list), percent(most)), evidence)
	case loss > mildLoss:
		text := fmt.Sprintf("%s: %s dB, the lowest. %s %s, which keeps %s of Gaussian values", p.where(list), decibels(list), they(len(list)), list[0].TypeB,
			tenths(float64(list[0].TypeDB)))
		evidence := "no less than its type keeps"
		if loss < -0.05 {
			evidence = fmt.Sprintf("the values cost at most %s dB more", tenths(-loss))
		}
		p.add("lowest", isMild, 3, 0, list, text, evidence)
	}
}

// they begins a sentence about n things.
func they(n int) string {
	if n == 1 {
		return "It is"
	}
	return "They are"
}

// compare orders numbers.
func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// stepsIn has the types that llama.cpp takes in place of others where rows are no multiple of 256: of Q2_K and Q3_K by its version.
var stepsIn = map[string][]string{"Q2_K": {"Q4_0", "IQ4_NL"}, "Q3_K": {"Q4_0", "IQ4_NL"}, "Q4_K": {"Q5_0"}, "Q5_K": {"Q5_1"}, "Q6_K": {"Q8_0"}, "IQ4_XS": {"IQ4_NL"}}

// otherTypes finds tensors that are stored in what stands in for the type that was asked for, as their rows are no multiple of 256.
// Other types are chosen on purpose: those of a mix such as Q4_K_M, or what stands in for them.
func (p *pairs) otherTypes() {
	asked := p.Asked
	if i := strings.Index(asked, "_K"); i > 0 {
		asked = asked[:i+len("_K")] // without _S, _M, _L
	}
	var list []*answer.Pair
	rows, types := make(map[int]bool), make(map[string]float64)
	askedBits := math.NaN()
	for i := range p.Pairs {
		one := &p.Pairs[i]
		if one.TypeB == asked {
			askedBits = float64(one.Bits)
		}
		if !isCompared(one) || one.Number >= len(p.Index.Rows) || one.TypeA == one.TypeB || !slices.Contains(stepsIn[asked], one.TypeB) {
			continue
		}
		shape := p.Index.Rows[one.Number].Shape
		if len(shape) < 2 || shape[len(shape)-1]%superBlock == 0 {
			continue
		}
		rows[shape[len(shape)-1]], types[one.TypeB] = true, float64(one.Bits)
		list = append(list, one)
	}
	if len(list) == 0 {
		return
	}
	var lengths, names, bits []string
	for _, n := range slices.Sorted(maps.Keys(rows))[:min(len(rows), maxLengths)] {
		lengths = append(lengths, fmt.Sprint(n))
	}
	if len(rows) > maxLengths {
		lengths = append(lengths, "…")
	}
	for name := range types {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		bits = append(bits, fmt.Sprintf("%.2f", types[name]))
	}
	matrices := fmt.Sprintf("%s matrices", thousands(uint64(len(list))))
	if len(list) == 1 {
		matrices = "1 matrix"
	}
	text := fmt.Sprintf("**Asked for %s, got %s:** %s, as rows of %s are no multiple of %d", asked, strings.Join(names, " or "), matrices,
		strings.Join(lengths, ", "), superBlock)
	evidence := strings.Join(bits, " or ") + " bits"
	if !math.IsNaN(askedBits) {
		evidence += fmt.Sprintf(" instead of %.2f", askedBits)
	}
	p.add("another type", isMild, 5, 0, list, text, evidence)
}

// fine says that nothing differs, or that no tensor lost more than its type costs. It returns false if that is not so, or
// not known yet.
func (p *pairs) fine() (answer.Finding, bool) {
	if !p.Done || len(p.Pairs) == 0 {
		return answer.Finding{}, false
	}
	same, compared := 0, 0
	quantized := "" // "quantized ", if tensors of types that cost nothing differ too
	var furthest *answer.Pair
	for i := range p.Pairs {
		one := &p.Pairs[i]
		if !isCompared(one) {
			continue
		}
		compared++
		if one.Same {
			same++
		}
		if one.Lost > 0 || isZeroInA(one) {
			return answer.Finding{}, false
		}
		if math.IsNaN(float64(one.TypeDB)) && !one.Same && !math.IsInf(float64(one.DB), 1) {
			quantized = "quantized "
		}
		if b := below(one); !math.IsNaN(b) && !math.IsInf(b, 0) && (furthest == nil || b < below(furthest)) {
			furthest = one
		}
	}
	f := answer.Finding{Rule: "checked", Tensors: []int{}}
	switch {
	case same == compared && compared == len(p.Pairs):
		f.Text = fmt.Sprintf("**Nothing differs:** all %s are stored alike", count(same, "tensor"))
		return f, true
	case furthest == nil || below(furthest) <= mildLoss:
		return f, false
	}
	f.Text = "**No " + quantized + "tensor lost more than its type costs**"
	if b := below(furthest); b < -0.05 {
		f.Text += fmt.Sprintf(": the furthest is %s, %s dB below what %s keeps", p.where([]*answer.Pair{furthest}), tenths(-b), furthest.TypeB)
	}
	f.Evidence = fmt.Sprintf("rule: %d dB", -mildLoss)
	return f, true
}
