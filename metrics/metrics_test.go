package metrics_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/metrics"
	"github.com/tensormap/tensormap/mmapio"
)

// file is a SafeTensors file of one BF16 tensor x, which has to be expanded.
func file(values int) []byte {
	head := fmt.Sprintf(`{"x":{"dtype":"BF16","shape":[%d],"data_offsets":[0,%d]}}`, values, 2*values)
	head += strings.Repeat(" ", (8-len(head)%8)%8)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	return append(append(b, head...), make([]byte, 2*values)...)
}

// open opens a file of a model that is mapped.
func open(t testing.TB) *loader.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, file(1000), 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := loader.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// gathered returns the values of all series: name{label="value"} of each.
func gathered(t testing.TB, c prometheus.Collector) (values map[string]float64, counters []string) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values = make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			series := f.GetName()
			for _, l := range m.Label {
				if l.GetName() != "model" {
					series += "{" + l.GetValue() + "}"
				}
			}
			if f.GetType() == dto.MetricType_COUNTER {
				counters = append(counters, series)
				values[series] = m.Counter.GetValue()
			} else {
				values[series] = m.Gauge.GetValue()
			}
		}
	}
	slices.Sort(counters)
	return values, counters
}

// TestLint holds the metrics to Prometheus' conventions.
func TestLint(t *testing.T) {
	c := metrics.New()
	if err := c.AddModel("a", open(t)); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.CollectAndLint(c)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestCollect compares the metrics of a model with what was done to it.
func TestCollect(t *testing.T) {
	c := metrics.New()
	var current loader.Current[int]
	if err := c.Add("a", &current); err != nil {
		t.Fatal(err)
	}
	if v, _ := gathered(t, c); v["tensormap_models{serving}"] != 0 {
		t.Errorf("of no model: %v", v)
	}
	m := open(t)
	if err := current.Swap(m, 0); err != nil {
		t.Fatal(err)
	}
	_, l, err := current.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, err := l.Tensor("x")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := x.Float32s(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.WarmAll(t.Context(), c.Warming("a", nil)); err != nil {
		t.Fatal(err)
	}
	v, _ := gathered(t, c)
	for name, want := range map[string]float64{
		"tensormap_models{serving}": 1, "tensormap_models{draining}": 0, "tensormap_tensors": 1, "tensormap_leases": 1, "tensormap_swaps_total": 1,
		"tensormap_heap_bytes": 4000, "tensormap_private_bytes": 0, "tensormap_cache_hits_total": 1, "tensormap_expansions_total": 1,
		"tensormap_expanded_bytes_total": 4000, "tensormap_fetched_bytes_total{origin}": 0, "tensormap_warm_bytes": 2000, "tensormap_warm_target_bytes": 2000,
	} {
		if got, ok := v[name]; !ok || got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	if resident, ok := v["tensormap_resident_bytes"]; ok && v["tensormap_mapped_bytes"] > 0 && resident < 2000 {
		t.Errorf("%g bytes are resident once all are warm", resident)
	}
	if v["tensormap_expansion_seconds_total"] <= 0 || v["tensormap_mapped_bytes"]+v["tensormap_unmapped_bytes"] < 2000 {
		t.Error(v)
	}
	l.Release()
}

// told is a Source of given numbers.
type told struct {
	stats    loader.CurrentStats
	resident uint64
	err      error
}

func (s told) Stats() loader.CurrentStats     { return s.stats }
func (s told) ResidentBytes() (uint64, error) { return s.resident, s.err }

// TestSeries compares all series with what a source says, each number another.
func TestSeries(t *testing.T) {
	c := metrics.New()
	source := told{loader.CurrentStats{Stats: loader.Stats{Tensors: 2, Leases: 3, MappedBytes: 4, UnmappedBytes: 5, HeapBytes: 6, PrivateBytes: 70,
		VerifiedBytes: 8, WrongChunks: 9, FetchedBytes: 10, PresentBytes: 11, Hits: 12, Expansions: 13, ExpandedBytes: 14, ExpandedTime: 1500 * time.Millisecond,
		Evictions: 15}, Draining: 16, Swaps: 17}, 18, nil}
	if err := errors.Join(c.Add("a", source), c.Add("silent", told{err: errors.ErrUnsupported})); err != nil {
		t.Fatal(err)
	}
	c.Warming("a", nil).Progress(19, 20)
	c.Streaming("a", nil).Progress(21, 22)
	want := map[string]float64{
		"models{serving}": 1, "models{draining}": 16, "tensors": 2, "leases": 3, "swaps_total": 17,
		"mapped_bytes": 4, "unmapped_bytes": 5, "resident_bytes": 18, "heap_bytes": 6, "private_bytes": 70,
		"cache_hits_total": 12, "cache_evictions_total": 15, "expansions_total": 13, "expanded_bytes_total": 14, "expansion_seconds_total": 1.5,
		"verified_bytes_total": 8, "wrong_chunks_total": 9, "fetched_bytes_total{origin}": 10, "fetched_bytes_total{cache}": 11,
		"warm_bytes": 19, "warm_target_bytes": 20, "stream_bytes": 21, "stream_target_bytes": 22, "faults_total": float64(mmapio.Faults()),
	}
	got := make(map[string]float64)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			labels := make(map[string]string)
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			model, named := labels["model"]
			if named == (f.GetName() == "tensormap_faults_total") || model == "silent" && f.GetName() == "tensormap_resident_bytes" {
				t.Errorf("%s has the label model %q", f.GetName(), model)
			}
			if model == "silent" {
				continue
			}
			series := strings.TrimPrefix(f.GetName(), "tensormap_")
			for _, label := range []string{"state", "from"} {
				if v, ok := labels[label]; ok {
					series += "{" + v + "}"
				}
			}
			got[series] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for series, value := range want {
		if v, ok := got[series]; !ok || v != value {
			t.Errorf("%s is %g, want %g", series, v, value)
		}
		delete(got, series)
	}
	if len(got) > 0 {
		t.Errorf("further series: %v", got)
	}
}

// TestFaults cuts a file under a model. The read that fails is counted.
func TestFaults(t *testing.T) {
	c := metrics.New()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, file(1000), 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := loader.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := c.AddModel("a", m); err != nil {
		t.Fatal(err)
	}
	before, _ := gathered(t, c)
	if before["tensormap_mapped_bytes"] == 0 || runtime.GOOS == "windows" {
		t.Skip("no file is mapped here, or none that is mapped can be cut")
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	x, err := m.Tensor("x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Float32s(); !errors.Is(err, mmapio.ErrFault) {
		t.Error(err)
	}
	if v, counters := gathered(t, c); v["tensormap_faults_total"] != before["tensormap_faults_total"]+1 || !slices.Contains(counters, "tensormap_faults_total") {
		t.Errorf("%g, then %g", before["tensormap_faults_total"], v["tensormap_faults_total"])
	}
}

// TestCountersSurviveSwaps collects while models are swapped under requests: no counter falls or vanishes.
func TestCountersSurviveSwaps(t *testing.T) {
	c := metrics.New()
	var current loader.Current[int]
	if err := c.Add("a", &current); err != nil {
		t.Fatal(err)
	}
	swap := func() {
		if err := current.Swap(open(t), 0); err != nil {
			t.Error(err)
		}
	}
	swap()
	var over atomic.Bool
	var served atomic.Uint64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !over.Load() {
				_, l, err := current.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				x, err := l.Tensor("x")
				if err == nil {
					_, err = x.Float32s()
				}
				if err != nil {
					t.Error(err)
				}
				l.Release()
				served.Add(1)
			}
		})
	}
	before, counters := gathered(t, c)
	const swaps = 30
	for i := 0; i < swaps || served.Load() < swaps; i++ {
		swap()
		now, names := gathered(t, c)
		if !slices.Equal(names, counters) {
			t.Fatalf("%v, then %v", counters, names)
		}
		for _, name := range counters {
			if now[name] < before[name] {
				t.Errorf("%s fell from %g to %g", name, before[name], now[name])
			}
		}
		before = now
	}
	over.Store(true)
	wg.Wait()
	requests := float64(served.Load())
	if err := current.Close(); err != nil {
		t.Error(err)
	}
	v, names := gathered(t, c)
	if v["tensormap_swaps_total"] < swaps+1 || v["tensormap_cache_hits_total"]+v["tensormap_expansions_total"] != requests || !slices.Equal(names, counters) {
		t.Errorf("after %g requests and the end: %v", requests, v)
	}
	if v["tensormap_models{serving}"] != 0 || v["tensormap_mapped_bytes"] != 0 || v["tensormap_leases"] != 0 {
		t.Errorf("at the end: %v", v)
	}
}

// TestModel: the counters of a model without a Current stay when it is closed.
func TestModel(t *testing.T) {
	c := metrics.New()
	m := open(t)
	if err := c.AddModel("a", m); err != nil {
		t.Fatal(err)
	}
	x, err := m.Tensor("x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Float32s(); err != nil {
		t.Fatal(err)
	}
	l, err := m.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if v, _ := gathered(t, c); v["tensormap_models{draining}"] != 1 || v["tensormap_models{serving}"] != 0 {
		t.Errorf("draining: %v", v)
	}
	l.Release()
	if v, _ := gathered(t, c); v["tensormap_models{draining}"] != 0 || v["tensormap_expansions_total"] != 1 || v["tensormap_heap_bytes"] != 0 {
		t.Errorf("gone: %v", v)
	}
}

// signed is the digests of a file in chunks of 65,536 bytes.
type signed []byte

func (s signed) Digests(string, layout.Input) (*layout.Digests, error) {
	return modeltest.Digests(s, 1<<16), nil
}

// TestWrongChunks counts a chunk that is not as it was signed, once.
func TestWrongChunks(t *testing.T) {
	content := file(60_000)
	trust := signed(slices.Clone(content))
	content[len(content)-1] ^= 1
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := loader.Open(path, &loader.Options{Trust: trust})
	if err != nil {
		t.Fatal(err)
	}
	c := metrics.New()
	var current loader.Current[int]
	if err := errors.Join(c.Add("a", &current), current.Swap(m, 0)); err != nil {
		t.Fatal(err)
	}
	if v, _ := gathered(t, c); v["tensormap_wrong_chunks_total"] != 0 {
		t.Errorf("before: %v", v)
	}
	x, err := m.Tensor("x")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := x.Float32s(); !errors.Is(err, layout.ErrChecksum) {
			t.Error(err)
		}
	}
	if v, _ := gathered(t, c); v["tensormap_verified_bytes_total"] != float64(len(content)) {
		t.Errorf("%g bytes were verified, of %d", v["tensormap_verified_bytes_total"], len(content))
	}
	current.Close()
	<-m.Done()
	if v, counters := gathered(t, c); v["tensormap_wrong_chunks_total"] != 1 || !slices.Contains(counters, "tensormap_wrong_chunks_total") {
		t.Errorf("afterwards: %v", v)
	}
}

// TestNames: labels are bounded.
func TestNames(t *testing.T) {
	c := metrics.New()
	m := open(t)
	for i := range metrics.MaxNames {
		if err := c.AddModel(fmt.Sprint("model", i), m); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", "model0", "one more"} {
		if err := c.AddModel(name, m); !errors.Is(err, metrics.ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	c.Warming("unknown", nil).Progress(1, 2)
	if n := testutil.CollectAndCount(c, "tensormap_warm_bytes"); n != metrics.MaxNames {
		t.Errorf("%d series", n)
	}
}

// TestWarming calls the Progress of the caller too.
func TestWarming(t *testing.T) {
	var told uint64
	opts := &loader.WarmOptions{Ordered: true, Progress: func(done, total uint64) { told = done + total }}
	if got := metrics.New().Warming("a", opts); !got.Ordered {
		t.Error("other options are lost")
	} else if got.Progress(1, 2); told != 3 {
		t.Error("the caller was not told")
	}
}

// TestStreaming calls the Progress of the caller too, and counts what Stream hands out.
func TestStreaming(t *testing.T) {
	m, err := loader.Open("../testdata/safetensors/minilm-slice.safetensors", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c := metrics.New()
	if err := c.AddModel("a", m); err != nil {
		t.Fatal(err)
	}
	var told uint64
	opts := &loader.StreamOptions{Buffers: [][]byte{make([]byte, 1<<20), make([]byte, 1<<20)}, Progress: func(done, _ uint64) { told = done }}
	r, err := m.StreamAll(t.Context(), c.Streaming("a", opts), func(loader.Piece) error { return nil })
	v, _ := gathered(t, c)
	if err != nil || told != r.Bytes || v["tensormap_stream_bytes"] != float64(told) || v["tensormap_stream_target_bytes"] != float64(told) || told == 0 {
		t.Errorf("%d bytes, told %d: %v, %v", r.Bytes, told, v, err)
	}
}

// TestDashboard: dashboard.json names metrics and labels that there are, shows every metric, and tells replicas apart.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title  string
		Panels []struct {
			Title, Type string
			ID          int
			GridPos     struct{ H, W, X, Y int }
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	c := metrics.New()
	if err := c.AddModel("a", open(t)); err != nil {
		t.Fatal(err)
	}
	v, _ := gathered(t, c)
	there := map[string]bool{"tensormap_resident_bytes": true} // not on every platform
	for series := range v {
		name, _, _ := strings.Cut(series, "{")
		there[name] = true
	}
	shown := make(map[string]bool)
	ids := make(map[int]bool)
	for i, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 || len(p.Targets) == 0 {
			t.Errorf("panel %q: %+v", p.Title, p)
		}
		ids[p.ID] = true
		for _, q := range board.Panels[:i] {
			a, b := p.GridPos, q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q covers %q", p.Title, q.Title)
			}
		}
		for _, target := range p.Targets {
			if p.Type == "timeseries" && !strings.Contains(target.LegendFormat, "{{instance}}") || !strings.Contains(target.Expr, `instance=~"$instance"`) {
				t.Errorf("%s: %q as %q: lines of several replicas are alike", p.Title, target.Expr, target.LegendFormat)
			}
			names := regexp.MustCompile(`tensormap_\w+`).FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s: %q names no metric", p.Title, target.Expr)
			}
			for _, name := range names {
				if shown[name] = true; !there[name] {
					t.Errorf("%s: there is no %s", p.Title, name)
				}
				if counts := strings.HasSuffix(name, "_total"); counts != strings.Contains(target.Expr, "rate(") && counts != strings.Contains(target.Expr, "increase(") {
					t.Errorf("%s: %s: rates are of counters alone", p.Title, target.Expr)
				}
			}
		}
	}
	page, err := os.ReadFile("../docs/serving.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range there {
		if !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
		if short := strings.TrimPrefix(name, "tensormap_"); !strings.Contains(string(page), "`"+short+"`") && !strings.Contains(string(page), "`"+short+"{") {
			t.Errorf("docs/serving.md lacks %s", short)
		}
	}
	if board.Title == "" {
		t.Error("no title")
	}
}
