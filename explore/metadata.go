package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"strings"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// Bounds of metadata in one answer.
const (
	maxEntries   = 5000
	maxTextBytes = 64 << 10 // of a value
	maxAllBytes  = 4 << 20  // of all values; values behind have a line each
	maxLineBytes = 200
	maxShort     = 16  // elements of a list that is a value, not a list of its own
	maxMembers   = 256 // keys of an object that is no list of its own
	maxKeyBytes  = 512 // of the keys that lead to such an object
)

// metadata answers data/metadata, and data/metadata?key=KEY: of the model, or with ?compared of the one it is compared with.
func (h *handler) metadata(r *request) (any, error) {
	md, err := r.lease.Metadata()
	if err != nil {
		return nil, err
	}
	r.shown.model.Config(r.ctx) // reads config.json, if there is one; what is wrong with it shows where it is asked
	described := func(yield func(string, any) bool) {
		if yieldLeaves("", md, yield) {
			yieldLeaves("config.json.", r.shown.model.ConfigFile(), yield)
		}
	}
	from, count, err := windowIn(r.query, 100)
	if err != nil {
		return nil, err
	}
	return inTurn(r.ctx, h.lists, func() (any, error) {
		if key := r.query.Get("key"); key != "" {
			for at, v := range described {
				if at == key {
					return windowOf(r.ctx, v, r.query.Get("q"), from, count)
				}
			}
			return nil, failed(http.StatusNotFound, "The metadata have no key of this name.")
		}
		return entriesOf(r.lease, described)
	})
}

// entriesOf returns the answer with all keys that there are, within bounds. It fails if the graph of the model that l holds cannot be
// read.
func entriesOf(l *loader.Lease, described iter.Seq2[string, any]) (*answer.MetadataAnswer, error) {
	a := &answer.MetadataAnswer{Entries: []answer.MetadataEntry{}}
	left := maxAllBytes
	for key, v := range described {
		if len(a.Entries) == maxEntries || left < -maxAllBytes {
			a.More++
			continue
		}
		e := entryOf(key, v, min(maxTextBytes, max(left, maxLineBytes)))
		left -= len(e.Key) + len(e.Value)
		a.Entries = append(a.Entries, e)
	}
	g, err := l.Graph()
	switch {
	case errors.Is(err, loader.ErrUnsupported), errors.Is(err, loader.ErrNotFound):
		return a, nil // its format has none
	case err != nil || g == nil:
		return a, err
	}
	a.Graph, err = json.Marshal(report.NewGraph(g))
	return a, err
}

// yieldLeaves yields the values of md that are no objects, or large or deep ones. prefix and dots join the keys that lead to them. It
// returns false if yield does.
func yieldLeaves(prefix string, md layout.Metadata, yield func(string, any) bool) bool {
	for _, e := range md {
		key := prefix + e.Key
		if m, ok := e.Value.(layout.Metadata); ok && len(m) > 0 && len(m) <= maxMembers && len(key) <= maxKeyBytes {
			if !yieldLeaves(key+".", m, yield) {
				return false
			}
		} else if !yield(key, e.Value) {
			return false
		}
	}
	return true
}

// entryOf describes a value in at most the given number of bytes.
func entryOf(key string, v any, most int) answer.MetadataEntry {
	e := answer.MetadataEntry{Key: key, Type: typeOf(v)}
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

// windowOf returns the elements of a list that contain a text, in upper or lower case: the elements from the from-th on, at most count. It
// fails if ctx ends.
func windowOf(ctx context.Context, v any, contains string, from, count int) (*answer.ListValuesAnswer, error) {
	a := &answer.ListValuesAnswer{Values: []answer.ListValue{}}
	contains = strings.ToLower(contains)
	_, elements := elementsOf(v)
	if elements == nil {
		return a, nil
	}
	at := 0
	for text := range elements {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if contains == "" || strings.Contains(strings.ToLower(text), contains) {
			if a.Matches >= from && len(a.Values) < count {
				a.Values = append(a.Values, answer.ListValue{At: at, Value: shortened(text, maxTextBytes/16)})
			}
			a.Matches++
		}
		at++
	}
	return a, nil
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

// shortened cuts a text to at most the given bytes, says what is missing, and escapes all but lines that shows as no character.
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
