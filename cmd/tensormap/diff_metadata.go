package main

import (
	"bytes"
	"encoding/json"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// metadataChange is a key of two models' metadata that has not the same value in both. Keys
// of nested objects are joined by dots. The names in JSON are a contract.
type metadataChange struct {
	Key string          `json:"key"`
	A   json.RawMessage `json:"a,omitempty"` // absent where there is none
	B   json.RawMessage `json:"b,omitempty"`
}

// cell is a value in a table.
func (metadataChange) cell(value json.RawMessage) string {
	if value == nil {
		return "–"
	}
	const room = 40
	return shorten(printable(string(value)), room)
}

// compareMetadata answers with the changes in the order of a's keys, then b's that a has not.
func compareMetadata(a, b *loader.Model) ([]metadataChange, error) {
	changes := []metadataChange{}
	fromA, err := flatMetadata(a)
	if err != nil {
		return nil, err
	}
	fromB, err := flatMetadata(b)
	if err != nil {
		return nil, err
	}
	inB := make(map[string]json.RawMessage, len(fromB))
	for _, e := range fromB {
		inB[e.Key] = e.A
	}
	for _, e := range fromA {
		if value := inB[e.Key]; !bytes.Equal(value, e.A) {
			changes = append(changes, metadataChange{e.Key, e.A, value})
		}
		delete(inB, e.Key)
	}
	for _, e := range fromB {
		if value, left := inB[e.Key]; left {
			changes = append(changes, metadataChange{Key: e.Key, B: value})
		}
	}
	return changes, nil
}

// flatMetadata is a model's metadata without nesting, the values in A.
func flatMetadata(m *loader.Model) ([]metadataChange, error) {
	md, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	return flatten(nil, "", md)
}

func flatten(list []metadataChange, prefix string, md layout.Metadata) ([]metadataChange, error) {
	var err error
	for _, e := range md {
		key := prefix + e.Key
		if nested, ok := e.Value.(layout.Metadata); ok && len(nested) > 0 {
			list, err = flatten(list, key+".", nested)
		} else {
			var text []byte
			text, err = encodeJSON(e.Value)
			list = append(list, metadataChange{Key: key, A: text})
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
