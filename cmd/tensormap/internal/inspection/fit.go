package inspection

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader"
)

// Fit says for what use of a model its memory is estimated.
type Fit struct {
	loader.FootprintOptions
	Memory     uint64 // that there is; 0 if nobody has said it
	MemoryText string // Memory as the user wrote it
}

// fit is an estimate, and how it compares with the memory that there is.
type fit struct {
	*loader.Footprint
	// Figures of Footprint, or null if they are not known.
	KnownPerToken *uint64 `json:"kv_bytes_per_token"`
	KnownCache    *uint64 `json:"kv_bytes"`
	KnownTotal    *uint64 `json:"total_bytes"`

	memoryText     string
	MemoryBytes    uint64 `json:"memory_bytes,omitempty"` // this and the next two fields only if memory is given, and Fits and LargestContext only if they are known
	Fits           *bool  `json:"fits,omitempty"`
	LargestContext *int   `json:"largest_context,omitempty"`
}

// newFit estimates what the model of l takes.
func newFit(l *loader.Lease, opts *Fit) (*fit, error) {
	estimate, err := l.Footprint(&opts.FootprintOptions)
	if err != nil {
		return nil, err
	}
	f := &fit{Footprint: estimate, MemoryBytes: opts.Memory, memoryText: opts.MemoryText}
	counted := estimate.KVBytesPerToken > 0 || estimate.CacheKnown()
	if counted {
		f.KnownPerToken = &estimate.KVBytesPerToken
	}
	if counted && (estimate.Context > 0 || estimate.KVBytesPerToken == 0) {
		f.KnownCache, f.KnownTotal = &estimate.KVBytes, &estimate.TotalBytes
	}
	if opts.Memory > 0 && (f.KnownTotal != nil || estimate.TotalBytes > opts.Memory) {
		f.Fits = new(estimate.TotalBytes <= opts.Memory)
	}
	if opts.Memory > 0 && (counted || estimate.TotalBytes > opts.Memory) {
		f.LargestContext = new(estimate.LargestContext(opts.Memory))
	}
	return f, nil
}

// write writes the estimate as tables.
func (f *fit) write(w *bufio.Writer, s report.Screen) {
	f.facts().Write(w, s)
	w.WriteString("\n")
	f.grid().Write(w, s)
	if len(f.Unknown) > 0 {
		w.WriteString("\nNot known:\n")
	}
	for _, u := range f.Unknown {
		what := map[string]string{"weights_bytes": "weights", "kv_bytes": "cache", "kv_bytes_per_token": "cache of a token", "state_bytes": "state"}[u.What]
		fmt.Fprintf(w, "- %s: %s\n", cmp.Or(what, u.What), report.Printable(u.Why))
	}
	w.WriteString("\nNot counted: activations and buffers of the program that runs it.\n")
}

// facts returns the sums.
func (f *fit) facts() report.Facts {
	var facts report.Facts
	context := "not known"
	if f.Context > 0 {
		context = report.Counted(f.Context, "token")
	}
	context += f.inEach()
	if f.MaxContext > 0 && f.Context > f.MaxContext {
		context += fmt.Sprintf(" (the model is made for %s)", report.Grouped(f.MaxContext))
	}
	facts.Add("context", context)
	facts.Add("weights", report.Size(f.WeightsBytes)+largestNames(f.DTypes))
	switch {
	case f.KnownPerToken == nil:
		facts.Add("cache", "not known")
	case f.KnownCache == nil:
		facts.Add("cache", fmt.Sprintf("%s a token in %v", report.Size(f.KVBytesPerToken), f.KV))
	default:
		facts.Add("cache", fmt.Sprintf("%s in %v, %s a token", report.Size(f.KVBytes), f.KV, report.Size(f.KVBytesPerToken)))
	}
	if f.StateBytes > 0 {
		facts.Add("states", report.Size(f.StateBytes))
	}
	if f.KnownTotal == nil {
		facts.Add("total", "at least "+report.Size(f.TotalBytes))
	} else {
		facts.Add("total", report.Exactly(report.Size(f.TotalBytes), f.TotalBytes, 1024, " bytes"))
	}
	if f.MemoryBytes > 0 {
		facts.Add("memory", f.memory()+": "+f.verdict())
	}
	return facts
}

// memory returns the size of the memory: in a decimal unit as the user wrote it, with the binary one in parentheses.
func (f *fit) memory() string {
	given, size := strings.TrimSpace(f.memoryText), report.Size(f.MemoryBytes)
	number := strings.TrimRightFunc(given, unicode.IsLetter)
	given = strings.TrimSpace(strings.TrimSpace(number) + " " + given[len(number):])
	if given == size || strings.ContainsAny(given, "iI") {
		return size
	}
	return given + " (" + size + ")"
}

// inEach returns " in each of N sequences", or "" for one sequence.
func (f *fit) inEach() string {
	if f.Sequences < 2 {
		return ""
	}
	return " in each of " + report.Counted(f.Sequences, "sequence")
}

// largestNames returns, in parentheses, the names and sizes of the first six of list, and "" for a list of fewer than two.
func largestNames(list []loader.NamedBytes) string {
	if len(list) < 2 {
		return ""
	}
	return " (" + joinTexts(list, 6, func(p loader.NamedBytes) string { return report.Printable(p.Name) + " " + report.Size(p.Bytes) }) + ")"
}

// verdict returns a text that says whether the model fits into the memory, and with how many tokens it would.
func (f *fit) verdict() string {
	verdict := "it fits"
	switch {
	case f.Fits == nil && f.LargestContext == nil:
		return "the weights fit; the cache is not known"
	case f.Fits == nil:
		verdict = "the weights fit"
	case !*f.Fits:
		verdict = "it does not fit: " + report.Size(f.TotalBytes-f.MemoryBytes) + " too much"
	}
	if len(f.Unknown) > 0 && f.Fits != nil {
		verdict += " by what is known"
	}
	n := *f.LargestContext
	most := "; up to " + report.Counted(n, "token") + f.inEach() + " would fit"
	switch {
	case n < 0:
		return verdict + "; without any token it takes " + report.Size(f.At(0)) + ", and less only in a smaller type: convert --dtype"
	case n == 0 && f.KVBytesPerToken > 0:
		return verdict + "; no token would fit in addition to the weights"
	case f.KVBytesPerToken == 0:
		return verdict + "; no layer keeps anything per token"
	case f.MaxContext > 0 && n > f.MaxContext:
		return verdict + most + ", and the model is made for " + report.Grouped(f.MaxContext)
	default:
		return verdict + most
	}
}

// layerRow sums up layers of one kind and window that cache the same number of bytes a token. numbers says which layers.
type layerRow struct {
	loader.LayerFootprint
	numbers []int
}

// layerRows returns a row for each kind of layer, window and number of bytes a token, in the order of the first layer of each.
func (f *fit) layerRows() (rows []layerRow) {
	for _, l := range f.Layers {
		row := report.FindOrAdd(&rows, layerRow{LayerFootprint: loader.LayerFootprint{Kind: l.Kind, Window: l.Window, KVBytesPerToken: l.KVBytesPerToken}}, func(r *layerRow) bool {
			return r.Kind == l.Kind && r.Window == l.Window && r.KVBytesPerToken == l.KVBytesPerToken
		})
		row.numbers = append(row.numbers, l.Layer)
		row.WeightsBytes += l.WeightsBytes
		row.KVBytes += l.KVBytes
		row.StateBytes += l.StateBytes
	}
	return rows
}

// grid returns a table of layers, and of tensors of no layer below them.
func (f *fit) grid() *report.Grid {
	const most, width = 8, 48 // rows of what is shared, and characters of a name
	var rows [][]string
	for _, r := range f.layerRows() {
		part, window := "layers ", ""
		if len(r.numbers) == 1 {
			part = "layer "
		}
		if r.Window > 0 {
			window = report.Grouped(r.Window)
		}
		part += report.Ranges(r.numbers, "..", ",", math.MaxInt)
		rows = append(rows, []string{report.Shorten(part, width), report.Grouped(len(r.numbers)), r.Kind, report.Size(r.WeightsBytes),
			window, sizeOrNone(uint64(len(r.numbers)) * r.KVBytesPerToken), sizeOrNone(r.KVBytes), sizeOrNone(r.StateBytes)})
	}
	rest := f.SharedBytes
	for i, p := range f.Shared {
		if i == most {
			rows = append(rows, []string{fmt.Sprintf("… %d more", len(f.Shared)-i), "", "", report.Size(rest), "", "", "", ""})
			break
		}
		rest -= p.Bytes
		rows = append(rows, []string{report.Shorten(report.Printable(p.Name), width), "", "", report.Size(p.Bytes), "", "", "", ""})
	}
	return &report.Grid{
		Heading: []string{"part", ">layers", "keeps", ">weights", ">window", ">a token", ">cache", ">state"},
		Spare:   []string{"state", "window"},
		Rows:    slices.Values(rows),
		Total:   []string{"total", report.Grouped(len(f.Layers)), "", report.Size(f.WeightsBytes), "", sizeOrNone(f.KVBytesPerToken), sizeOrNone(f.KVBytes), sizeOrNone(f.StateBytes)},
	}
}

// sizeOrNone returns the size of n bytes, or "" for none.
func sizeOrNone(n uint64) string {
	if n == 0 {
		return ""
	}
	return report.Size(n)
}
