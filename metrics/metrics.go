// Package metrics exposes what the models of a process cost and have done to Prometheus.
//
//	var current loader.Current[weights]
//	collector := metrics.New()
//	err := collector.Add("embedder", &current)
//	prometheus.MustRegister(collector)
//
// Counters of a [loader.Current] go on across swaps: counts of models that are gone stay in the sums. A model that is served without a
// Current is added by [Collector.AddModel].
//
// Every metric begins with tensormap_ and has the label model, the name that Add was given. Only tensormap_faults_total has no
// label: it counts for the whole process. docs/serving.md lists the metrics. OpenTelemetry reads them through its bridge,
// go.opentelemetry.io/contrib/bridges/prometheus.
package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// MaxNames bounds the names that a Collector takes, and so the series of a process.
const MaxNames = 128

// Source is what a collector asks about models that are served under one name. A pointer to a [loader.Current] is one.
type Source interface {
	Stats() loader.CurrentStats
	ResidentBytes() (uint64, error)
}

// Collector is a [prometheus.Collector] over models. Its methods may be called concurrently.
type Collector struct {
	mu      sync.Mutex
	sources map[string]source // by name
}

// source is a Source, and how far its last Warm and Stream have come.
type source struct {
	Source
	warming, streaming progress
}

// progress is how far a Warm or a Stream has come, in bytes.
type progress struct{ done, total uint64 }

// New returns a collector of no models.
func New() *Collector {
	return &Collector{sources: make(map[string]source)}
}

// ErrName means that a name is empty or taken, or that there are MaxNames already.
var ErrName = errors.New("metrics: name cannot be added")

// Add makes the collector ask s from now on. name becomes a label: name a task of the program, not a version or a path. The error
// is ErrName.
func (c *Collector) Add(name string, s Source) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	name = strings.ToValidUTF8(name, "�")
	switch _, taken := c.sources[name]; {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrName)
	case taken:
		return fmt.Errorf("%w: %q is taken", ErrName, name)
	case len(c.sources) == MaxNames:
		return fmt.Errorf("%w: %q is one more than %d", ErrName, name, MaxNames)
	}
	c.sources[name] = source{Source: s}
	return nil
}

// AddModel adds a model that is in no [loader.Current]. Its counters stay after it is closed. The error is ErrName.
func (c *Collector) AddModel(name string, m *loader.Model) error { return c.Add(name, single{m}) }

// single is one model as a Source.
type single struct{ *loader.Model }

// Stats returns the statistics of the model, which drains once it is closed and until it is gone.
func (s single) Stats() loader.CurrentStats {
	stats := loader.CurrentStats{Stats: s.Model.Stats()}
	select {
	case <-s.Done():
	default:
		if stats.Closed {
			stats.Draining = 1
		}
	}
	return stats
}

// Warming returns a copy of opts, which may be nil, for one Warm of a model. Its Progress also tells the collector how far that
// has come, under a name that was added: others are ignored.
func (c *Collector) Warming(name string, opts *loader.WarmOptions) *loader.WarmOptions {
	out := *cmp.Or(opts, &loader.WarmOptions{})
	out.Progress = c.telling(name, func(s *source) *progress { return &s.warming }, out.Progress)
	return &out
}

// Streaming returns a copy of opts, which may be nil, for one Stream of a model. Its Progress also tells the collector how far that has come, under
// a name that was added: others are ignored.
func (c *Collector) Streaming(name string, opts *loader.StreamOptions) *loader.StreamOptions {
	out := *cmp.Or(opts, &loader.StreamOptions{})
	out.Progress = c.telling(name, func(s *source) *progress { return &s.streaming }, out.Progress)
	return &out
}

// telling returns a function that sets a field of the source called name, if that was added, and then calls tell unless that is nil.
func (c *Collector) telling(name string, field func(*source) *progress, tell func(done, total uint64)) func(done, total uint64) {
	name = strings.ToValidUTF8(name, "�")
	return func(done, total uint64) {
		c.mu.Lock()
		if s, ok := c.sources[name]; ok {
			*field(&s) = progress{done, total}
			c.sources[name] = s
		}
		c.mu.Unlock()
		if tell != nil {
			tell(done, total)
		}
	}
}

// metric is a metric of each name. value returns it, or NaN if it is not known.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*reading) float64
	label []string // its values of further labels
}

// reading is what a source says when it is collected.
type reading struct {
	loader.CurrentStats
	source
}

const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue

// desc describes a metric of each name, with further labels.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tensormap_"+name, help, append([]string{"model"}, labels...), nil)
}

var (
	models  = desc("models", "Models whose memory is not released, by whether they are served or drain.", "state")
	fetched = desc("fetched_bytes_total", "Bytes of models by where they came from: the origin, or the cache of this disk when the model was opened.", "from")
)

// metrics has the metric of each name.
var metrics = []metric{
	{models, gauge, func(r *reading) float64 {
		if r.Closed {
			return 0
		}
		return 1
	}, []string{"serving"}},
	{models, gauge, func(r *reading) float64 { return float64(r.Draining) }, []string{"draining"}},
	{desc("tensors", "Tensors of the model that is served."), gauge, func(r *reading) float64 { return float64(r.Tensors) }, nil},
	{desc("leases", "Leases that are taken and not released."), gauge, func(r *reading) float64 { return float64(r.Leases) }, nil},
	{desc("swaps_total", "Models that became the one that is served."), counter, func(r *reading) float64 { return float64(r.Swaps) }, nil},

	{desc("mapped_bytes", "Address space that files take."), gauge, func(r *reading) float64 { return float64(r.MappedBytes) }, nil},
	{desc("unmapped_bytes", "Size of files that are read on demand in place of being mapped."), gauge, func(r *reading) float64 { return float64(r.UnmappedBytes) }, nil},
	{desc("resident_bytes", "Bytes of mapped files that are in memory, where the platform tells."), gauge, func(r *reading) float64 {
		n, err := r.ResidentBytes()
		if err != nil {
			return math.NaN()
		}
		return float64(n)
	}, nil},
	{desc("heap_bytes", "Cached tensors, copied or expanded."), gauge, func(r *reading) float64 { return float64(r.HeapBytes) }, nil},
	{desc("private_bytes", "Chunks of files that are held in memory of the process."), gauge, func(r *reading) float64 { return float64(r.PrivateBytes) }, nil},

	{desc("cache_hits_total", "Requests that the cache of tensors answered."), counter, func(r *reading) float64 { return float64(r.Hits) }, nil},
	{desc("cache_evictions_total", "Entries of the cache that were dropped to keep its budget."), counter, func(r *reading) float64 { return float64(r.Evictions) }, nil},
	{desc("expansions_total", "Tensors that were copied or expanded into the cache."), counter, func(r *reading) float64 { return float64(r.Expansions) }, nil},
	{desc("expanded_bytes_total", "Bytes that expansions put into the cache."), counter, func(r *reading) float64 { return float64(r.ExpandedBytes) }, nil},
	{desc("expansion_seconds_total", "Time that expansions took."), counter, func(r *reading) float64 { return r.ExpandedTime.Seconds() }, nil},

	{desc("verified_bytes_total", "Bytes that were hashed and compared with digests."), counter, func(r *reading) float64 { return float64(r.VerifiedBytes) }, nil},
	{desc("wrong_chunks_total", "Chunks of files whose digest was not the trusted one."), counter, func(r *reading) float64 { return float64(r.WrongChunks) }, nil},
	{fetched, counter, func(r *reading) float64 { return float64(r.FetchedBytes) }, []string{"origin"}},
	{fetched, counter, func(r *reading) float64 { return float64(r.PresentBytes) }, []string{"cache"}},

	{desc("warm_bytes", "Bytes that the last or running Warm has read into memory."), gauge, func(r *reading) float64 { return float64(r.warming.done) }, nil},
	{desc("warm_target_bytes", "Bytes that this Warm reads in all."), gauge, func(r *reading) float64 { return float64(r.warming.total) }, nil},
	{desc("stream_bytes", "Bytes that the last or running Stream has handed out."), gauge, func(r *reading) float64 { return float64(r.streaming.done) }, nil},
	{desc("stream_target_bytes", "Bytes that this Stream hands out in all."), gauge, func(r *reading) float64 { return float64(r.streaming.total) }, nil},
}

// faults is a metric of the process: it has no label.
var faults = prometheus.NewDesc("tensormap_faults_total", "Faults of mappings that became errors, in the whole process.", nil, nil)

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- faults
	last := faults
	for _, m := range metrics {
		if m.desc != last {
			descs <- m.desc
		}
		last = m.desc
	}
}

// Collect implements [prometheus.Collector]. It asks the kernel about every mapped page, which takes about a millisecond for ten
// gigabytes.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(faults, counter, float64(mmapio.Faults()))
	c.mu.Lock()
	sources := maps.Clone(c.sources)
	c.mu.Unlock()
	for name, s := range sources {
		r := reading{s.Stats(), s}
		for _, m := range metrics {
			if v := m.value(&r); !math.IsNaN(v) {
				out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, slices.Concat([]string{name}, m.label)...)
			}
		}
	}
}
