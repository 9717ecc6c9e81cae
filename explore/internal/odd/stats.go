package odd

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/grid"
)

// Severities.
const (
	isFine = iota
	isMild
	isStrong
	isBroken
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

// Bounds of a report. Odd has no bound but the number of tensors.
const (
	maxFindings = 200
	maxNumbers  = 4096 // tensors of one finding
)

// Report has what was found.
type Report struct {
	Findings []answer.Finding
	Odd      map[int]int // by number of a tensor: 2 if it has a strong finding or worse, 1 if a mild one
}

// found is a finding before it is sorted.
type found struct {
	answer.Finding
	order  int // of its rule, within a severity
	excess float64
}

// figures are those of a model, with all that the rules compare.
type figures struct {
	*grid.Index
	stats  []*answer.TensorStat
	judged []int // numbers of tensors with figures, but integers
	all    []found

	stds, sigmas map[grid.Kind][]valued // of layers, if there are any; ascending
	byRole       map[int][]int          // numbers of judged tensors, by role
	untrained    map[int]bool           // tensors of what looks never trained
	outlying     map[int]bool           // roles with strong outliers
	beside       []int                  // tensors with mild outliers that the sentence of strong ones mentions
}

// valued is a figure of a tensor.
type valued struct {
	role  int
	value float64
}

// InStats says what is odd about figures, which stand at the numbers of their tensors. Those that are not known yet are nil.
func InStats(x *grid.Index, stats []*answer.TensorStat) Report {
	s := figures{Index: x, stats: stats, untrained: make(map[int]bool), outlying: make(map[int]bool)}
	s.collect()
	s.broken()
	s.outliers(isStrong)
	s.outliers(isMild)
	s.neverTrained()
	s.allZero()
	s.rolesApart()
	s.tensorsApart()
	s.indexAgain()
	s.zeros()
	s.zeroRows()
	r := report(s.all)
	for _, n := range s.beside {
		r.Odd[n] = max(r.Odd[n], isMild)
	}
	if fine, ok := s.fine(); ok {
		r.Findings = append(r.Findings, fine)
	}
	return r
}

// report sorts findings.
func report(all []found) Report {
	slices.SortStableFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.order, b.order), cmp.Compare(b.excess, a.excess))
	})
	r := Report{Findings: []answer.Finding{}, Odd: make(map[int]int)}
	left := make(map[int][]int) // numbers of tensors of findings that are too many, by severity
	more := make(map[int]int)
	for i, f := range all {
		for _, n := range f.Tensors {
			r.Odd[n] = max(r.Odd[n], min(f.Severity, isStrong))
		}
		if i < maxFindings {
			f.Tensors = f.Tensors[:min(len(f.Tensors), maxNumbers)]
			r.Findings = append(r.Findings, f.Finding)
			continue
		}
		more[f.Severity]++
		left[f.Severity] = append(left[f.Severity], f.Tensors[:min(len(f.Tensors), maxNumbers-len(left[f.Severity]))]...)
	}
	for severity := isBroken; severity > isFine; severity-- {
		if n := more[severity]; n > 0 {
			r.Findings = append(r.Findings, answer.Finding{Rule: "more", Severity: severity, Text: "**More of the same:** " + count(n, "finding"),
				Tensors: left[severity]})
		}
	}
	return r
}

// isInteger reports whether t has figures of integers that stand for themselves: these have no σ.
func isInteger(t *answer.TensorStat) bool { return t.Finite > 0 && math.IsNaN(float64(t.Std)) }

// collect finds what the rules compare with.
func (s *figures) collect() {
	s.stds, s.sigmas = make(map[grid.Kind][]valued), make(map[grid.Kind][]valued)
	s.byRole = make(map[int][]int)
	for n, t := range s.stats {
		if t == nil || t.Error != "" || t.Finite == 0 || isInteger(t) {
			continue
		}
		s.judged = append(s.judged, n)
		role := s.role(n)
		s.byRole[role] = append(s.byRole[role], n)
		if len(s.Grid.Layers) > 0 && s.Rows[n].Layer < 0 {
			continue
		}
		kind := s.Kind(n)
		if std := float64(t.Std); std > 0 {
			s.stds[kind] = append(s.stds[kind], valued{role, std})
		}
		if m := float64(t.MaxSigma); m > 0 {
			s.sigmas[kind] = append(s.sigmas[kind], valued{role, m})
		}
	}
	for _, figures := range []map[grid.Kind][]valued{s.stds, s.sigmas} {
		for _, values := range figures {
			slices.SortFunc(values, func(a, b valued) int { return compare(a.value, b.value) })
		}
	}
}

// role returns a number for the role of a tensor, which outside the grid is a role of its own.
func (s *figures) role(n int) int {
	if r := s.RoleNumber(n); r >= 0 {
		return r
	}
	return -1 - n
}

// noRole is the role of no tensor.
const noRole = math.MaxInt

// medianBut returns the median of ascending values of all roles but one. It is NaN if there are too few.
func medianBut(values []valued, role int) float64 {
	others := 0
	for _, v := range values {
		if v.role != role {
			others++
		}
	}
	if others < leastOfRole {
		return math.NaN()
	}
	low, seen := math.NaN(), 0
	for _, v := range values {
		if v.role == role {
			continue
		}
		if seen == (others-1)/2 {
			low = v.value
		}
		if seen == others/2 {
			return (low + v.value) / 2
		}
		seen++
	}
	return math.NaN()
}

// median returns the median of values, which it sorts, or NaN if there are fewer than leastOfRole.
func median(values []float64) float64 {
	n := len(values)
	if n < leastOfRole {
		return math.NaN()
	}
	slices.Sort(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// plural names kinds.
var plural = map[grid.Kind]string{grid.Matrix: "matrices", grid.Bias: "biases", grid.Norm: "norms", grid.Vector: "vectors"}

// add adds a finding about tensors.
func (s *figures) add(rule string, severity, order int, excess float64, numbers []int, text, evidence string) {
	s.all = append(s.all, found{answer.Finding{Rule: rule, Severity: severity, Text: text, Evidence: evidence, Tensors: numbers}, order, excess})
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

// roles yields judged tensors that keep lets through, by role in the order of the model.
func (s *figures) roles(keep func(n int, t *answer.TensorStat) bool) (roles [][]int) {
	places := make(map[int]int)
	for _, n := range s.judged {
		if !keep(n, s.stats[n]) {
			continue
		}
		r := s.role(n)
		at, ok := places[r]
		if !ok {
			at = len(roles)
			places[r] = at
			roles = append(roles, nil)
		}
		roles[at] = append(roles[at], n)
	}
	return roles
}

// broken finds tensors that cannot be read, and such with NaNs or infinities.
func (s *figures) broken() {
	kinds := []struct {
		rule  string
		words func(numbers []int) string
		keep  func(t *answer.TensorStat) bool
	}{
		{"damaged", func([]int) string { return "damaged" }, func(t *answer.TensorStat) bool { return t.Kind == "damaged" }},
		{"nan", func(numbers []int) string {
			return s.count(numbers, "NaN", func(t *answer.TensorStat) uint64 { return t.NaN })
		},
			func(t *answer.TensorStat) bool { return t.NaN > 0 }},
		{"infinite", func(numbers []int) string {
			return s.count(numbers, "infinite", func(t *answer.TensorStat) uint64 { return t.PosInf + t.NegInf })
		}, func(t *answer.TensorStat) bool { return t.PosInf+t.NegInf > 0 }},
	}
	for order, k := range kinds {
		byRole := make(map[int][]int)
		var roles []int
		for n, t := range s.stats {
			if t == nil || !k.keep(t) {
				continue
			}
			r := s.role(n)
			if byRole[r] == nil {
				roles = append(roles, r)
			}
			byRole[r] = append(byRole[r], n)
		}
		for _, r := range roles {
			numbers := byRole[r]
			evidence := ""
			if k.rule == "damaged" {
				evidence = "cannot be read"
				if strings.Contains(s.stats[numbers[0]].Error, "checksum") {
					evidence = "checksum"
				}
			} else {
				values := uint64(0)
				for _, n := range numbers {
					values += s.Rows[n].Elements
				}
				evidence = "of " + thousands(values) + " values"
			}
			s.add(k.rule, isBroken, order, 0, numbers, s.where(numbers)+": "+k.words(numbers), evidence)
		}
	}
}

// count says how many values of tensors are counted by of: a lower bound, if a sample was read.
func (s *figures) count(numbers []int, words string, of func(*answer.TensorStat) uint64) string {
	total := uint64(0)
	for _, n := range numbers {
		total += of(s.stats[n])
	}
	return s.sign(numbers, "≥ ") + thousands(total) + " " + words
}

// outliers finds values that lie far out. Mild ones are left to the sentence of strong ones in the same role.
func (s *figures) outliers(severity int) {
	isOut := func(t *answer.TensorStat) bool {
		e := excess(t)
		return severity == isStrong && e >= strongExcess || severity == isMild && e >= mildExcess && e < strongExcess
	}
	for _, numbers := range s.roles(func(n int, t *answer.TensorStat) bool { return isOut(t) && !s.outlying[s.role(n)] }) {
		role := s.role(numbers[0])
		largest, worst := 0.0, 0
		for _, n := range numbers {
			if e := excess(s.stats[n]); e > largest {
				largest, worst = e, n
			}
		}
		text := s.where(numbers) + ": "
		at := s.place(numbers)
		if len(numbers) > 1 {
			text += "largest value "
			if at != "" {
				at = ", always " + at
			}
		} else {
			at = " at " + s.coordinates(worst)
		}
		text += s.span(numbers, func(t *answer.TensorStat) float64 { return float64(t.MaxSigma) }, sigmas) + at
		evidence := fmt.Sprintf("%s%s × what Gaussian values reach", s.sign(numbers, "≥ "), short(largest))
		order := 10
		if severity == isStrong {
			order = 0
			if more := s.milder(role); more != "" {
				evidence = more
			}
		}
		s.add("outlier", severity, order, largest, numbers, text, evidence)
	}
	if severity == isStrong {
		for _, f := range s.all {
			if f.Rule == "outlier" {
				s.outlying[s.role(f.Tensors[0])] = true
			}
		}
	}
}

// milder says what mild outliers the role has, and the median of other tensors of its kind. It returns "" if the role
// has none.
func (s *figures) milder(role int) string {
	var mild []int
	for _, n := range s.byRole[role] {
		if e := excess(s.stats[n]); e >= mildExcess && e < strongExcess {
			mild = append(mild, n)
		}
	}
	if len(mild) == 0 || s.RoleNumber(mild[0]) < 0 {
		return ""
	}
	s.beside = append(s.beside, mild...)
	kind := s.Kind(mild[0])
	text := s.layers(mild) + ": "
	if len(mild) <= 3 {
		var each []string
		for _, n := range mild {
			each = append(each, sigmas(float64(s.stats[n].MaxSigma)))
		}
		text += strings.Join(each, ", ") + narrow + "σ"
	} else {
		text += s.span(mild, func(t *answer.TensorStat) float64 { return float64(t.MaxSigma) }, sigmas)
	}
	if m := medianBut(s.sigmas[kind], role); !math.IsNaN(m) {
		text += fmt.Sprintf("; other %s: median %s%sσ", plural[kind], sigmas(m), narrow)
	}
	return text
}

// neverTrained finds modules whose weights are small and Gaussian, as they are made, and whose biases are zero.
func (s *figures) neverTrained() {
	numbers := make(map[string]int)
	for _, n := range s.judged {
		if s.Kind(n) == grid.Bias {
			numbers[s.Rows[n].Name] = n
		}
	}
	usual := medianBut(s.stds[grid.Matrix], noRole)
	bias := func(n int) (int, bool) {
		name, _ := strings.CutSuffix(s.Rows[n].Name, ".weight")
		b, ok := numbers[name+".bias"]
		return b, ok
	}
	for _, list := range s.roles(func(n int, t *answer.TensorStat) bool {
		b, ok := bias(n)
		return ok && s.Kind(n) == grid.Matrix && float64(t.Std) <= untrainedStd*usual && math.Abs(float64(t.Kurtosis)) < untrainedKurtosis &&
			isAllZero(s.stats[b])
	}) {
		all, biases := slices.Clone(list), uint64(0)
		for _, n := range list {
			b, _ := bias(n)
			s.untrained[n], s.untrained[b] = true, true
			all = append(all, b)
			biases = s.Rows[b].Elements
		}
		text := fmt.Sprintf("%s: all %s biases are 0; weights of σ %s, kurtosis %s: looks never trained", s.where(list), thousands(biases),
			s.spanOf(list, func(t *answer.TensorStat) float64 { return float64(t.Std) }, digits),
			s.spanOf(list, func(t *answer.TensorStat) float64 { return float64(t.Kurtosis) }, tenths))
		s.add("never trained", isStrong, 1, 0, all, text, "matrices: median σ "+digits(usual))
	}
}

// isAllZero reports whether all values are known to be zero.
func isAllZero(t *answer.TensorStat) bool { return t.Zeros > 0 && t.Zeros == t.Finite && !t.Sampled }

// allZero finds tensors of zeros. Experts of one layer that have nothing else are one finding.
func (s *figures) allZero() {
	type expert struct{ layer, expert int }
	matrices, zeros := make(map[expert]int), make(map[expert][]int)
	for _, n := range s.judged {
		if s.Rows[n].Expert >= 0 && s.Kind(n) == grid.Matrix {
			e := expert{s.Rows[n].Layer, s.Rows[n].Expert}
			matrices[e]++
			if isAllZero(s.stats[n]) {
				zeros[e] = append(zeros[e], n)
			}
		}
	}
	isDead := make(map[int]bool)
	dead := make(map[int][]int) // numbers of tensors, by layer
	var layers []int
	for _, n := range s.judged {
		e := expert{s.Rows[n].Layer, s.Rows[n].Expert}
		list := zeros[e]
		if e.expert < 0 || len(list) < 2 || len(list) < matrices[e] || isDead[list[0]] {
			continue
		}
		for _, n := range list {
			isDead[n] = true
		}
		if dead[e.layer] == nil {
			layers = append(layers, e.layer)
		}
		dead[e.layer] = append(dead[e.layer], list...)
	}
	for _, layer := range layers {
		var experts []int
		for _, n := range dead[layer] {
			experts = append(experts, s.Rows[n].Expert)
		}
		name, n := grid.Ranges(experts)
		if n > 1 {
			name = "{" + name + "}"
		}
		text := fmt.Sprintf("`experts.%s`, layer %d: all zero, never used?", name, layer)
		s.add("all zero", isStrong, 2, 0, dead[layer], text, count(len(dead[layer]), "tensor"))
	}
	for _, list := range s.roles(func(n int, t *answer.TensorStat) bool { return isAllZero(t) && !s.untrained[n] && !isDead[n] }) {
		severity := isMild
		if s.Kind(list[0]) == grid.Matrix {
			severity = isStrong
		}
		evidence := ""
		if n := s.Rows[list[0]].Elements; len(list) == 1 {
			evidence = thousands(n) + " values"
		} else {
			evidence = fmt.Sprintf("%d of %d tensors of the role", len(list), len(s.byRole[s.role(list[0])]))
		}
		s.add("all zero", severity, 2, 0, list, s.where(list)+": all zero", evidence)
	}
}

// rolesApart finds roles whose values are far smaller or larger than those of their kind.
func (s *figures) rolesApart() {
	for _, list := range s.roles(func(n int, t *answer.TensorStat) bool { return t.Std > 0 && s.RoleNumber(n) >= 0 }) {
		kind := s.Kind(list[0])
		var stds []float64
		for _, n := range list {
			stds = append(stds, float64(s.stats[n].Std))
		}
		slices.Sort(stds)
		own, usual := (stds[(len(stds)-1)/2]+stds[len(stds)/2])/2, medianBut(s.stds[kind], s.role(list[0]))
		if kind == grid.Vector || math.IsNaN(usual) || own > usual/roleApart && own < usual*roleApart {
			continue
		}
		text := fmt.Sprintf("%s: σ %s; other %s: median %s", s.where(list), s.spanOf(list, func(t *answer.TensorStat) float64 { return float64(t.Std) }, digits),
			plural[kind], digits(usual))
		evidence := ratio(own, usual) + " their median"
		if strings.Contains(s.Common(list[0]), "bias of the key projection") {
			evidence = "a key bias cancels in softmax"
		}
		s.add("σ apart", isMild, 3, 0, list, text, evidence)
	}
}

// tensorsApart finds tensors whose values are far smaller or larger than those of their role.
func (s *figures) tensorsApart() {
	medians := make(map[int]float64)
	for _, list := range s.roles(func(n int, t *answer.TensorStat) bool { return t.Std > 0 && s.RoleNumber(n) >= 0 }) {
		var stds []float64
		for _, n := range list {
			stds = append(stds, float64(s.stats[n].Std))
		}
		medians[s.role(list[0])] = median(stds)
	}
	for _, list := range s.roles(func(n int, t *answer.TensorStat) bool {
		m, ok := medians[s.role(n)]
		return ok && t.Std > 0 && !s.untrained[n] && (float64(t.Std) <= m/tensorApart || float64(t.Std) >= m*tensorApart)
	}) {
		text := fmt.Sprintf("%s: σ %s", s.where(list), s.spanOf(list, func(t *answer.TensorStat) float64 { return float64(t.Std) }, digits))
		s.add("σ apart", isMild, 4, 0, list, text, "the role's median: "+digits(medians[s.role(list[0])]))
	}
}

// indexAgain finds indexes of the hidden axis that hold the largest value of several tensors.
func (s *figures) indexAgain() {
	at, total := make(map[uint64][]int), 0
	for _, n := range s.judged {
		t, axis := s.stats[n], s.HiddenAxis(n)
		if axis < 0 || axis >= len(t.MaxSigmaAt) || t.Sampled || isAllZero(t) {
			continue
		}
		total++
		at[t.MaxSigmaAt[axis]] = append(at[t.MaxSigmaAt[axis]], n)
	}
	var again []uint64
	for index, list := range at {
		if len(list) >= leastAgain && float64(len(list)) >= againShare*float64(total) {
			again = append(again, index)
		}
	}
	if len(again) == 0 {
		return
	}
	slices.SortFunc(again, func(a, b uint64) int { return cmp.Or(cmp.Compare(len(at[b]), len(at[a])), cmp.Compare(a, b)) })
	text, numbers := "", []int{}
	for i, index := range again {
		numbers = append(numbers, at[index]...)
		if i == 0 {
			text = fmt.Sprintf("**Index %d** of the hidden size holds the largest value of %d of %d tensors", index, len(at[index]), total)
		} else {
			text += fmt.Sprintf(", **index %d** of %d", index, len(at[index]))
		}
	}
	slices.Sort(numbers)
	s.add("index again", isMild, 5, 0, numbers, text, byChance(total, s.Hidden))
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
	share := func(t *answer.TensorStat) float64 { return float64(t.Zeros) / float64(t.Finite) }
	type group struct {
		role int
		of   string // type
	}
	key := func(n int) group { return group{s.role(n), s.Rows[n].Type} }
	shares, medians := make(map[group][]float64), make(map[group]float64)
	for _, n := range s.judged {
		shares[key(n)] = append(shares[key(n)], share(s.stats[n]))
	}
	for k, list := range shares {
		medians[k] = median(list)
	}
	for _, list := range s.roles(func(n int, t *answer.TensorStat) bool {
		return share(t) >= zeroShare && share(t) >= zeroRatio*medians[key(n)] && !isAllZero(t)
	}) {
		text := fmt.Sprintf("%s: %s%s of the values are 0", s.where(list), s.sign(list, "≈ "), s.spanOf(list, share, percent))
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
		s.add("zero rows", isMild, 7, 0, list, fmt.Sprintf("%s: %s of norm 0", s.where(list), count(int(zeros), "row")), "of "+thousands(rows)+" rows")
	}
}

// fine says what was checked and is fine. It returns false if nothing was, or if a sample cannot tell.
func (s *figures) fine() (answer.Finding, bool) {
	damaged, nan, infinite, sampled := 0, 0, 0, false
	values, zeros, read := uint64(0), uint64(0), 0
	for n, t := range s.stats {
		switch {
		case t == nil:
			continue
		case t.Kind == "damaged":
			damaged++
			continue
		case t.Error != "":
			continue
		}
		read++
		sampled = sampled || t.Sampled
		values += t.Finite + t.NaN + t.PosInf + t.NegInf
		if t.NaN > 0 {
			nan++
		}
		if t.PosInf+t.NegInf > 0 {
			infinite++
		}
		if s.Kind(n) == grid.Matrix && !isInteger(t) {
			zeros += t.Zeros
		}
	}
	if read == 0 || sampled {
		return answer.Finding{}, false
	}
	var none []string
	for _, one := range []struct {
		n     int
		words string
	}{{nan, "NaN"}, {infinite, "infinity"}, {damaged, "damaged tensor"}} {
		if one.n == 0 {
			none = append(none, "no "+one.words)
		}
	}
	text := ""
	if len(none) > 0 {
		text = strings.ToUpper(none[0][:1]) + strings.Join(none, ", ")[1:] + " in " + amount(values) + " values"
	} else {
		text = fmt.Sprintf("%s values were read", amount(values))
	}
	return answer.Finding{Rule: "checked", Text: fmt.Sprintf("%s; %s zeros in all matrices", text, thousands(zeros)), Tensors: []int{}}, true
}
