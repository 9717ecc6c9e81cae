package odd

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/grid"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader/survey"
)

// The bounds of the rules.
const (
	strongExcess, mildExcess = 10, 4
	leastValues              = 64 // for outliers to be told
	untrainedStd             = 1.0 / 4
	untrainedKurtosis        = 0.1
	roleApart                = 20 // times the median of its kind, or less than that by as much
	tensorApart              = 4  // the same, of its role
	leastOfRole              = 3  // tensors that have a median
	leastAgain, againShare   = 4, 0.1
	zeroShare, zeroRatio     = 0.05, 10
)

// figures are the figures of a model, with all that the rules compare.
type figures struct {
	finder
	stats  []*answer.TensorStat
	known  []int // numbers of tensors that are not nil in stats
	judged []int // numbers of tensors with figures, but integers

	stds, sigmas map[grid.Kind][]valued // of layers, if there are any; ascending
	byRole       map[int][]int          // numbers of judged tensors, by role
	explained    map[int]bool           // tensors of what looks never trained or used
}

// valued is a figure of a tensor.
type valued struct {
	role  int
	value float64
}

// InStats says what is odd about figures, which stand at the numbers of their tensors. Figures that are not known yet are nil.
func InStats(x *grid.Index, stats []*answer.TensorStat) Report {
	s := figures{finder: finder{Index: x, odd: make(map[int]int)}, stats: stats, explained: make(map[int]bool)}
	s.collect()
	s.broken()
	s.outliers()
	s.neverTrained()
	s.allZero()
	s.apart()
	s.indexAgain()
	s.zeros()
	s.zeroRows()
	return s.report(s.fine())
}

// isInteger reports whether t has figures of integers that stand for themselves: such figures have no σ.
func isInteger(t *answer.TensorStat) bool { return t.Finite > 0 && math.IsNaN(float64(t.Std)) }

// collect finds what the rules compare with.
func (s *figures) collect() {
	s.stds, s.sigmas = make(map[grid.Kind][]valued), make(map[grid.Kind][]valued)
	s.byRole = make(map[int][]int)
	for n, t := range s.stats {
		if t == nil {
			continue
		}
		s.known = append(s.known, n)
		if t.Error != "" || t.Finite == 0 || isInteger(t) {
			continue
		}
		s.judged = append(s.judged, n)
		role, kind := s.role(n), s.Kind(n)
		s.byRole[role] = append(s.byRole[role], n)
		if len(s.Grid.Layers) > 0 && s.Rows[n].Layer < 0 {
			continue
		}
		if t.Std > 0 {
			s.stds[kind] = append(s.stds[kind], valued{role, s.std(n)})
		}
		if t.MaxSigma > 0 {
			s.sigmas[kind] = append(s.sigmas[kind], valued{role, s.maxSigma(n)})
		}
	}
	for _, figures := range []map[grid.Kind][]valued{s.stds, s.sigmas} {
		for _, values := range figures {
			slices.SortFunc(values, func(a, b valued) int { return cmp.Compare(a.value, b.value) })
		}
	}
}

// std returns the σ of a tensor.
func (s *figures) std(n int) float64 { return float64(s.stats[n].Std) }

// maxSigma returns how many σ the largest value of a tensor is from the mean.
func (s *figures) maxSigma(n int) float64 { return float64(s.stats[n].MaxSigma) }

// noRole is the role of no tensor.
const noRole = math.MaxInt

// medianBut returns the median of ascending values of all roles but one. It is NaN if there are too few.
func medianBut(values []valued, role int) float64 {
	others := make([]float64, 0, len(values))
	for _, v := range values {
		if v.role != role {
			others = append(others, v.value)
		}
	}
	return median(others)
}

// plural names kinds.
var plural = map[grid.Kind]string{grid.Matrix: "matrices", grid.Bias: "biases", grid.Norm: "norms", grid.Vector: "vectors"}

// roles returns judged tensors that keep lets through, by role in the order of the model.
func (s *figures) roles(keep func(n int, t *answer.TensorStat) bool) [][]int {
	return groups(s.judged, func(n int) bool { return keep(n, s.stats[n]) }, s.role)
}

// sign returns sampled if a figure of tensors is of a sample: "≥ " of a bound, "≈ " of an estimate. Else it returns "".
func (s *figures) sign(numbers []int, sampled string) string {
	if slices.ContainsFunc(numbers, func(n int) bool { return s.stats[n].Sampled }) {
		return sampled
	}
	return ""
}

// defects are what makes a tensor broken.
var defects = []struct {
	rule  string
	order int
	words string // for values that were found
	none  string // for what was not found
	count func(*answer.TensorStat) uint64
}{
	{"nan", 1, "NaN", "no NaN", func(t *answer.TensorStat) uint64 { return t.NaN }},
	{"infinite", 2, "infinite", "no infinity", func(t *answer.TensorStat) uint64 { return t.PosInf + t.NegInf }},
	{"damaged", 0, "", "no damaged tensor", func(t *answer.TensorStat) uint64 {
		if t.Kind == "damaged" {
			return 1
		}
		return 0
	}},
}

// broken finds tensors that cannot be read, and such with NaNs or infinities.
func (s *figures) broken() {
	for _, d := range defects {
		for _, numbers := range groups(s.known, func(n int) bool { return d.count(s.stats[n]) > 0 }, s.role) {
			text, evidence := "damaged", damage(s.stats[numbers[0]].Error)
			if d.rule != "damaged" {
				found, values := uint64(0), uint64(0)
				for _, n := range numbers {
					found += d.count(s.stats[n])
					values += s.Rows[n].Elements
				}
				text = s.sign(numbers, "≥ ") + report.Grouped(found) + " " + d.words
				evidence = "of " + report.Grouped(values) + " values"
			}
			s.add(d.rule, isBroken, d.order, 0, numbers, s.where(numbers)+": "+text, evidence)
		}
	}
}

// Excess returns how many times further from the mean the largest of some values lies than Gaussian values do: maxSigma by
// √(2 ln n). It is NaN for fewer than two values, and if maxSigma is.
func Excess(maxSigma float64, values uint64) float64 {
	if values < 2 {
		return math.NaN()
	}
	return maxSigma / math.Sqrt(2*math.Log(float64(values)))
}

// excess returns Excess of a tensor, or 0 if it is not judged.
func excess(t *answer.TensorStat) float64 {
	if t.Finite < leastValues || math.IsNaN(float64(t.MaxSigma)) {
		return 0
	}
	return Excess(float64(t.MaxSigma), t.Finite)
}

// outlier returns how severe it is that the largest value of a tensor lies far out.
func outlier(t *answer.TensorStat) int {
	switch e := excess(t); {
	case e >= strongExcess:
		return isStrong
	case e >= mildExcess:
		return isMild
	}
	return isFine
}

// outliers finds values that lie far out. Mild ones are left to the sentence of strong ones in the same role.
func (s *figures) outliers() {
	hasStrong := make(map[int]bool) // by role
	for _, severity := range []int{isStrong, isMild} {
		for _, numbers := range s.roles(func(n int, t *answer.TensorStat) bool { return outlier(t) == severity && !hasStrong[s.role(n)] }) {
			first, text := numbers[0], s.farthest(numbers)
			if len(numbers) == 1 {
				text += " at " + coordinates(s.stats[first].MaxSigmaAt, s.Common(first))
			} else {
				text = "largest value " + text + s.place(numbers)
			}
			_, largest := extremes(numbers, func(n int) float64 { return excess(s.stats[n]) })
			evidence := fmt.Sprintf("%s%s × what Gaussian values reach", s.sign(numbers, "≥ "), sigmas(largest))
			order := 10
			if severity == isStrong {
				order, evidence = 0, cmp.Or(s.milder(s.role(first)), evidence)
				hasStrong[s.role(first)] = true
			}
			s.add("outlier", severity, order, largest, numbers, s.where(numbers)+": "+text, evidence)
		}
	}
}

// farthest says from what to what the largest values of tensors lie: "79 to 175 σ", with ≥ before a bound.
func (s *figures) farthest(numbers []int) string {
	return s.sign(numbers, "≥ ") + fromTo(numbers, s.maxSigma, sigmas) + narrow + "σ"
}

// hiddenPlace returns the hidden axis of a tensor, and the index there of its largest value. axis is −1 if that is not known, as
// of a sample.
func (s *figures) hiddenPlace(n int) (axis int, index uint64) {
	axis, t := s.HiddenAxis(n), s.stats[n]
	if axis < 0 || axis >= len(t.MaxSigmaAt) || t.Sampled {
		return -1, 0
	}
	return axis, t.MaxSigmaAt[axis]
}

// place says where the largest values of tensors lie, if that is the same index of the hidden axis: ", always in row 99". Else
// it returns "".
func (s *figures) place(numbers []int) string {
	axis, index := s.hiddenPlace(numbers[0])
	for _, n := range numbers {
		if a, i := s.hiddenPlace(n); a < 0 || a != axis || i != index {
			return ""
		}
	}
	where := "at index"
	if len(s.Rows[numbers[0]].Shape) == 2 {
		where = [...]string{"in row", "in column"}[axis]
	}
	return fmt.Sprintf(", always %s %d", where, index)
}

// milder says what mild outliers the role has, and the median of other tensors of its kind. It returns "" if the role
// has none.
func (s *figures) milder(role int) string {
	var mild []int
	var each []string
	for _, n := range s.byRole[role] {
		if outlier(s.stats[n]) == isMild {
			s.odd[n] = max(s.odd[n], isMild)
			mild, each = append(mild, n), append(each, sigmas(s.maxSigma(n)))
		}
	}
	if len(mild) == 0 {
		return ""
	}
	text := s.farthest(mild)
	if len(mild) <= 3 {
		text = strings.Join(each, ", ") + narrow + "σ"
	}
	text = s.layers(mild) + ": " + text
	kind := s.Kind(mild[0])
	if m := medianBut(s.sigmas[kind], role); !math.IsNaN(m) {
		text += fmt.Sprintf("; other %s: median %s%sσ", plural[kind], sigmas(m), narrow)
	}
	return text
}

// neverTrained finds modules whose weights are small and Gaussian, as they are made, and whose biases are zero.
func (s *figures) neverTrained() {
	zeroBiases := make(map[string]int) // numbers, by the name of the module
	for _, n := range s.judged {
		if module, ok := strings.CutSuffix(s.Rows[n].Name, ".bias"); ok && s.Kind(n) == grid.Bias && isAllZero(s.stats[n]) {
			zeroBiases[module] = n
		}
	}
	bias := func(n int) (number int, ok bool) {
		number, ok = zeroBiases[strings.TrimSuffix(s.Rows[n].Name, ".weight")]
		return number, ok
	}
	usual := medianBut(s.stds[grid.Matrix], noRole)
	for _, list := range s.roles(func(n int, t *answer.TensorStat) bool {
		_, ok := bias(n)
		return ok && s.Kind(n) == grid.Matrix && s.std(n) <= untrainedStd*usual && math.Abs(float64(t.Kurtosis)) < untrainedKurtosis
	}) {
		all, values := slices.Clone(list), uint64(0)
		for _, n := range list {
			b, _ := bias(n)
			s.explained[n], s.explained[b] = true, true
			all, values = append(all, b), s.Rows[b].Elements
		}
		text := fmt.Sprintf("%s: all %s biases are 0; weights of σ %s, kurtosis %s: looks never trained", s.where(list), report.Grouped(values),
			fromTo(list, s.std, digits), fromTo(list, func(n int) float64 { return float64(s.stats[n].Kurtosis) }, tenths))
		s.add("never trained", isStrong, 1, 0, all, text, "matrices: median σ "+digits(usual))
	}
}

// isAllZero reports whether all values are known to be zero.
func isAllZero(t *answer.TensorStat) bool { return t.Zeros > 0 && t.Zeros == t.Finite && !t.Sampled }

// allZero finds tensors of zeros. Experts of one layer that have nothing else are one finding.
func (s *figures) allZero() {
	isOfExpert := func(n int) bool { return s.Rows[n].Expert >= 0 }
	var dead []int // matrices of experts with several that have nothing but zeros
	for _, list := range groups(s.judged, isOfExpert, func(n int) [2]int { return [2]int{s.Rows[n].Layer, s.Rows[n].Expert} }) {
		matrices := slices.DeleteFunc(list, func(n int) bool { return s.Kind(n) != grid.Matrix })
		if len(matrices) > 1 && !slices.ContainsFunc(matrices, func(n int) bool { return !isAllZero(s.stats[n]) }) {
			dead = append(dead, matrices...)
		}
	}
	for _, list := range groups(dead, isOfExpert, func(n int) int { return s.Rows[n].Layer }) {
		var experts []int
		for _, n := range list {
			experts = append(experts, s.Rows[n].Expert)
			s.explained[n] = true
		}
		name, n := grid.Ranges(experts)
		if n > 1 {
			name = "{" + name + "}"
		}
		text := fmt.Sprintf("`experts.%s`, layer %d: all zero, never used?", name, s.Rows[list[0]].Layer)
		s.add("all zero", isStrong, 2, 0, list, text, report.Counted(len(list), "tensor"))
	}
	for _, list := range s.roles(func(n int, t *answer.TensorStat) bool { return isAllZero(t) && !s.explained[n] }) {
		severity := isMild
		if s.Kind(list[0]) == grid.Matrix {
			severity = isStrong
		}
		evidence := fmt.Sprintf("%d of %d tensors of the role", len(list), len(s.byRole[s.role(list[0])]))
		if len(list) == 1 {
			evidence = report.Grouped(s.Rows[list[0]].Elements) + " values"
		}
		s.add("all zero", severity, 2, 0, list, s.where(list)+": all zero", evidence)
	}
}

// isApart reports whether value lies by factor or more below or above usual. It reports false if usual is 0 or NaN, as of what
// has no median.
func isApart(value, usual, factor float64) bool {
	return usual > 0 && (value <= usual/factor || value >= usual*factor)
}

// apart finds roles whose values are far smaller or larger than the values of their kind, and tensors that are so in their role.
func (s *figures) apart() {
	medians := make(map[int]float64) // of σ, by role
	for _, list := range s.roles(func(n int, t *answer.TensorStat) bool { return t.Std > 0 && s.RoleNumber(n) >= 0 }) {
		role, kind := s.role(list[0]), s.Kind(list[0])
		var stds []float64
		for _, n := range list {
			stds = append(stds, s.std(n))
		}
		medians[role] = median(stds)
		own, usual := middle(stds), medianBut(s.stds[kind], role)
		if kind == grid.Vector || !isApart(own, usual, roleApart) {
			continue
		}
		evidence := ratio(own, usual) + " their median"
		if strings.Contains(s.Common(list[0]), "bias of the key projection") {
			evidence = "a key bias cancels in softmax"
		}
		text := fmt.Sprintf("%s: σ %s; other %s: median %s", s.where(list), fromTo(list, s.std, digits), plural[kind], digits(usual))
		s.add("σ apart", isMild, 3, 0, list, text, evidence)
	}
	for _, list := range s.roles(func(n int, t *answer.TensorStat) bool {
		return t.Std > 0 && !s.explained[n] && isApart(s.std(n), medians[s.role(n)], tensorApart)
	}) {
		text := fmt.Sprintf("%s: σ %s", s.where(list), fromTo(list, s.std, digits))
		s.add("σ apart", isMild, 4, 0, list, text, "the role's median: "+digits(medians[s.role(list[0])]))
	}
}

// indexAgain finds indexes of the hidden axis that hold the largest value of several tensors.
func (s *figures) indexAgain() {
	total, index := 0, make(map[int]uint64) // by number of a tensor
	again := groups(s.judged, func(n int) bool {
		axis, i := s.hiddenPlace(n)
		index[n] = i
		return axis >= 0 && !isAllZero(s.stats[n])
	}, func(n int) uint64 { return index[n] })
	for _, list := range again {
		total += len(list)
	}
	again = slices.DeleteFunc(again, func(list []int) bool { return len(list) < leastAgain || float64(len(list)) < againShare*float64(total) })
	if len(again) == 0 {
		return
	}
	slices.SortFunc(again, func(a, b []int) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(index[a[0]], index[b[0]]))
	})
	text := fmt.Sprintf("**Index %d** of the hidden size holds the largest value of %d of %d tensors", index[again[0][0]], len(again[0]), total)
	for _, list := range again[1:] {
		text += fmt.Sprintf(", **index %d** of %d", index[list[0]], len(list))
	}
	s.add("index again", isMild, 5, 0, slices.Sorted(slices.Values(slices.Concat(again...))), text, byChance(total, s.Hidden))
}

// byChance says how often the most frequent of some indexes occurs, if tensors take one of them each by chance.
func byChance(tensors, indexes int) string {
	if indexes < 1 {
		return ""
	}
	mean := float64(tensors) / float64(indexes)
	low, high := -1, -1
	for sum, k := 0.0, 0; high < 0; k++ {
		factorial, _ := math.Lgamma(float64(k + 1)) // logarithms: e^-mean may be less than any float64
		sum += math.Exp(float64(float64(k)*math.Log(mean)) - mean - factorial)
		atMost := math.Pow(sum, float64(indexes)) // the chance that no index occurs more often than k times
		if low < 0 && (atMost >= 0.05 || k == tensors) {
			low = k
		}
		if atMost >= 0.95 || k == tensors {
			high = k
		}
	}
	switch high - low {
	case 0:
		return fmt.Sprintf("by chance: %d", low)
	case 1:
		return fmt.Sprintf("by chance: %d or %d", low, high)
	}
	return fmt.Sprintf("by chance: %d to %d", low, high)
}

// zeros finds tensors with many zeros, of roles that have few.
func (s *figures) zeros() {
	share := func(n int) float64 { return float64(s.stats[n].Zeros) / float64(s.stats[n].Finite) }
	type group struct {
		role int
		of   string // type
	}
	key := func(n int) group { return group{s.role(n), s.Rows[n].Type} }
	shares := make(map[group][]float64)
	for _, n := range s.judged {
		shares[key(n)] = append(shares[key(n)], share(n))
	}
	medians := make(map[group]float64)
	for k, list := range shares {
		medians[k] = median(list)
	}
	for _, list := range s.roles(func(n int, t *answer.TensorStat) bool {
		return share(n) >= zeroShare && share(n) >= zeroRatio*medians[key(n)] && !isAllZero(t)
	}) {
		text := fmt.Sprintf("%s: %s%s of the values are 0", s.where(list), s.sign(list, "≈ "), fromTo(list, share, percent))
		s.add("zeros", isMild, 6, 0, list, text, "the role's median: "+percent(medians[key(list[0])]))
	}
}

// zeroRows finds matrices with rows of norm 0.
func (s *figures) zeroRows() {
	for _, list := range s.roles(func(n int, t *answer.TensorStat) bool { return t.ZeroRows > 0 && !isAllZero(t) }) {
		zeros, rows := uint64(0), uint64(0)
		for _, n := range list {
			zeros += s.stats[n].ZeroRows
			rows += uint64(s.Rows[n].Shape[0])
		}
		text := fmt.Sprintf("%s: %s of norm 0", s.where(list), report.Counted(zeros, "row"))
		s.add("zero rows", isMild, 7, 0, list, text, "of "+report.Grouped(rows)+" rows")
	}
}

// fine says what was checked and is fine. It returns nil if nothing was, or if a sample cannot tell.
func (s *figures) fine() *answer.Finding {
	values, zeros, isRead := uint64(0), uint64(0), false
	for _, n := range s.known {
		t := s.stats[n]
		switch {
		case t.Kind == "damaged" || t.Error != "":
			continue
		case t.Sampled:
			return nil
		}
		isRead = true
		values += t.Finite + t.NaN + t.PosInf + t.NegInf
		if s.Kind(n) == grid.Matrix && !isInteger(t) {
			zeros += t.Zeros
		}
	}
	if !isRead {
		return nil
	}
	var none []string
	for _, d := range defects {
		if !slices.ContainsFunc(s.all, func(f found) bool { return f.Rule == d.rule }) {
			none = append(none, d.none)
		}
	}
	text := amount(values) + " values were read"
	if len(none) > 0 {
		text = upper(strings.Join(none, ", ")) + " in " + amount(values) + " values"
	}
	return &answer.Finding{Rule: "checked", Text: fmt.Sprintf("%s; %s zeros in all matrices", text, report.Grouped(zeros)), Tensors: []int{}}
}

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
// what σ would be without it, else how many such values there are.
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

// beyond returns how many values a histogram by σ counts in bins that lie farther than sigma from the mean as a whole. edge is the edge of
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
