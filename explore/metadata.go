package explore

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"reflect"
	"strings"

	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// Bounds of metadata in one answer.
const (
	maxEntries   = 5000
	maxTextBytes = 64 << 10 // of a value
	maxAllBytes  = 4 << 20  // of all values; those behind have a line each
	maxLineBytes = 200
	maxShort     = 16  // elements of a list that is a value, not a list of its own
	maxMembers   = 256 // keys of an object that is no list of its own
)

// metadata answers data/metadata, and data/metadata?key=KEY.
func (h *handler) metadata(w http.ResponseWriter, r *http.Request) error {
	_, l, err := h.leaseFor(w, theModel)
	if err != nil {
		return err
	}
	defer l.Release()
	md, err := l.Metadata()
	if err != nil {
		return err
	}
	l.Model().Config(r.Context()) // reads config.json, if there is one; what is wrong with it shows where it is asked
	described := []struct {
		prefix string
		layout.Metadata
	}{{"", md}, {"config.json.", l.Model().ConfigFile()}}
	query := r.URL.Query()
	if key := query.Get("key"); key != "" {
		from, err := numberOf(query, "from", 0, math.MaxInt)
		if err != nil {
			return err
		}
		count, err := numberOf(query, "count", 100, maxListed)
		if err != nil {
			return err
		}
		for _, d := range described {
			for at, v := range leaves(d.prefix, d.Metadata) {
				if at == key {
					return writeJSON(w, windowOf(v, query.Get("q"), from, count))
				}
			}
		}
		return failed(http.StatusNotFound, "The metadata have no key of this name.")
	}
	a := MetadataAnswer{Entries: []MetadataEntry{}}
	left := maxAllBytes
	for _, d := range described {
		for key, v := range leaves(d.prefix, d.Metadata) {
			if len(a.Entries) == maxEntries {
				break
			}
			e := entryOf(key, v, min(maxTextBytes, max(left, maxLineBytes)))
			left -= len(e.Value)
			a.Entries = append(a.Entries, e)
		}
	}
	if a.Graph, err = graphOf(l); err != nil {
		return err
	}
	return writeJSON(w, &a)
}

// graphOf returns the model's graph as JSON, or null if its format has none.
func graphOf(l *loader.Lease) (json.RawMessage, error) {
	g, err := l.Graph()
	if errors.Is(err, loader.ErrUnsupported) || errors.Is(err, loader.ErrNotFound) {
		return nil, nil
	}
	if err != nil || g == nil {
		return nil, err
	}
	return json.Marshal(report.NewGraph(g))
}

// leaves yields the values of md that are no objects, or large ones, with the keys that lead to them joined by dots behind prefix.
func leaves(prefix string, md layout.Metadata) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) { yieldLeaves(prefix, md, yield) }
}

func yieldLeaves(prefix string, md layout.Metadata, yield func(string, any) bool) bool {
	for _, e := range md {
		key := prefix + e.Key
		if m, ok := e.Value.(layout.Metadata); ok && len(m) > 0 && len(m) <= maxMembers {
			if !yieldLeaves(key+".", m, yield) {
				return false
			}
		} else if !yield(key, e.Value) {
			return false
		}
	}
	return true
}

// entryOf describes a value in at most so many bytes.
func entryOf(key string, v any, most int) MetadataEntry {
	e := MetadataEntry{Key: key, Type: typeOf(v)}
	n, elements := elementsOf(v)
	if n > maxShort {
		e.Length = n
		return e
	}
	if elements == nil {
		e.Value = shortened(textOf(v), most)
		return e
	}
	var list []string
	for element := range elements {
		list = append(list, shortened(element, maxLineBytes))
	}
	e.Value = "[" + strings.Join(list, ", ") + "]"
	return e
}

// windowOf returns the elements of a list that contain a text, in upper or lower case: those from the from-th on, at most count.
func windowOf(v any, contains string, from, count int) *ListValuesAnswer {
	a := &ListValuesAnswer{Values: []ListValue{}}
	contains = strings.ToLower(contains)
	_, elements := elementsOf(v)
	if elements == nil {
		return a
	}
	at := 0
	for text := range elements {
		if contains == "" || strings.Contains(strings.ToLower(text), contains) {
			if a.Matches >= from && len(a.Values) < count {
				a.Values = append(a.Values, ListValue{At: at, Value: shortened(text, maxTextBytes/16)})
			}
			a.Matches++
		}
		at++
	}
	return a
}

// elementsOf returns the number of elements of a list, or of members of an object, and their texts. It returns nil for other
// values.
func elementsOf(v any) (int, iter.Seq[string]) {
	if md, ok := v.(layout.Metadata); ok {
		return len(md), func(yield func(string) bool) {
			for _, e := range md {
				if !yield(e.Key + ": " + textOf(e.Value)) {
					return
				}
			}
		}
	}
	list := reflect.ValueOf(v)
	if _, isBlob := v.(layout.Blob); isBlob || list.Kind() != reflect.Slice {
		return 0, nil
	}
	return list.Len(), func(yield func(string) bool) {
		for i := 0; i < list.Len() && yield(textOf(list.Index(i).Interface())); i++ {
		}
	}
}

// textOf returns a value as text.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return v
	case layout.Blob:
		return "binary, " + report.Size(uint64(len(v)))
	case layout.Metadata, []any:
		text, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(text)
	}
	return fmt.Sprint(v)
}

// typeOf names the type of a value: as the file has it, or of JSON.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case layout.Metadata:
		return "object"
	case []any:
		return "list"
	case json.Number:
		return "number"
	case layout.Blob:
		return "binary"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", v), "[]")
}

// shortened cuts a text to at most so many bytes, says what is missing, and escapes all but lines that shows as no character.
func shortened(text string, most int) string {
	more := ""
	if len(text) > most {
		more = fmt.Sprintf("… (%s more)", report.Size(uint64(len(text)-most)))
		text = strings.ToValidUTF8(text[:most], "")
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(report.Printable(line), `\t`, "\t")
	}
	return strings.Join(lines, "\n") + more
}
