package shard

import (
	"bytes"
	"encoding/json"
)

// locate is where in doc, a valid JSON object, the value starts that path leads to: keys
// (string) and positions in lists (int). Where it leads nowhere, it is where the last thing
// starts that is there. It reads the document anew, which only errors are worth.
func locate(doc []byte, path ...any) uint64 {
	w := newWalker(doc)
	at := w.start()
	for _, step := range path {
		if !w.enter(step) {
			break
		}
		at = w.start()
	}
	return at
}

// locateEach is where the value of key starts in each object of the list that path leads to.
func locateEach(doc []byte, key string, path ...any) (at []uint64) {
	w := newWalker(doc)
	for _, step := range path {
		if !w.enter(step) {
			return nil
		}
	}
	w.dec.Token() // the bracket
	for w.dec.More() {
		start := w.start()
		var object json.RawMessage
		if w.dec.Decode(&object) != nil {
			break
		}
		at = append(at, start+locate(object, key))
	}
	return at
}

// walker goes through a document value by value.
type walker struct {
	doc []byte
	dec *json.Decoder
}

func newWalker(doc []byte) *walker {
	w := &walker{doc, json.NewDecoder(bytes.NewReader(doc))}
	w.dec.UseNumber() // no number is too large
	return w
}

// start is where the value starts that comes next.
func (w *walker) start() uint64 {
	rest := w.doc[w.dec.InputOffset():]
	return uint64(len(w.doc) - len(bytes.TrimLeft(rest, " \t\r\n:,")))
}

// enter goes to the value of a key, or at a position, of what comes next; false where it
// has none.
func (w *walker) enter(step any) bool {
	if _, err := w.dec.Token(); err != nil { // the bracket
		return false
	}
	for i := 0; w.dec.More(); i++ {
		if i == step {
			return true
		}
		if _, ok := step.(string); ok {
			if key, err := w.dec.Token(); err != nil || key == step {
				return err == nil
			}
		}
		var skipped json.RawMessage
		if w.dec.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}
