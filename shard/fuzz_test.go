package shard_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
)

// FuzzStitch: encoding/json tells what the shards of a manifest hold, and they are one table. If they lack
// one of these tensors, or hold it elsewhere or twice, that is an error. order says in which order they hold it, and what else.
func FuzzStitch(f *testing.F) {
	f.Add([]byte(`{`+twoShards+`,"tensor_shard_map":{"z":1,"y":0, "x" : 0,"\u0077":0,"w1":0}}`), byte(0))
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf(`{"file":"%d","size":1}`, i))
	}
	f.Add([]byte(`{"shard_count":12,"shards":[`+strings.Join(many, ",")+`],"tensor_shard_map":{"z":11,"y":1, "x" : 11,"w":1}}`), byte(1))
	f.Add([]byte("{\"weight_map\":{\"z\":\"b\",\"y\": \"a\",\n \"x\": \"a\",\n \"w\":\"\\u0061\"}}"), byte(2))
	f.Fuzz(func(t *testing.T, doc []byte, order byte) {
		m, err := manifest.Decode(layout.Bytes(doc), nil)
		if err != nil {
			return
		}
		names := make([][]string, len(m.Shards))
		for name, i := range placed(t, doc, m) {
			names[i] = append(names[i], name)
			if strings.Contains(name, "\x00") {
				return // no shard holds that
			}
		}
		for i := range names {
			slices.Sort(names[i])
			if order&1 != 0 {
				slices.Reverse(names[i])
			}
		}
		if _, _, err := stitch(t, doc, nil, names...); err != nil {
			t.Errorf("%q: %v", doc, err)
		}
		last, other := &names[len(names)-1], &names[0]
		switch n := len(*last); {
		case order&2 != 0 && !slices.Contains(*last, "one more"):
			*last = append(*last, "one more")
			if _, _, err := stitch(t, doc, nil, names...); err != nil {
				t.Errorf("%q and one more: %v", doc, err)
			}
			return
		case order&4 != 0 && n > 0:
			*last = (*last)[:n-1]
		case order&8 != 0 && n > 0 && last != other:
			*other, *last = append(*other, (*last)[n-1]), (*last)[:n-1]
		case order&16 != 0 && n > 0 && last != other:
			*other = append(*other, (*last)[0])
		default:
			return
		}
		if _, _, err := stitch(t, doc, nil, names...); err == nil {
			t.Errorf("%q: no error for %q", doc, names)
		}
	})
}

// placed returns the position of each tensor's shard, by encoding/json.
func placed(t *testing.T, doc []byte, m *manifest.File) map[string]int {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(doc, &keys); err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	places := make(map[string]int)
	var numbers map[string]json.Number
	var files map[string]string
	if m.Of == layout.SafeTensors {
		if err := json.Unmarshal(keys["weight_map"], &files); err != nil {
			t.Fatalf("%q: %v", doc, err)
		}
		for name, file := range files {
			places[name] = slices.IndexFunc(m.Shards, func(s manifest.Shard) bool { return s.Name == file })
		}
		return places
	}
	if err := json.Unmarshal(keys["tensor_shard_map"], &numbers); err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	for name, number := range numbers {
		i, err := strconv.Atoi(string(number))
		if err != nil {
			t.Fatalf("%q: %v", doc, err)
		}
		places[name] = i
	}
	return places
}
