package layout_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

func as[T any](v any) (any, bool) { return layout.As[T](v) }

// TestAs takes values of JSON and of typed formats as every type.
func TestAs(t *testing.T) {
	md, err := jsontext.Parse(`{"ints":[1,2],"floats":[1,2.5,"NaN"],"mixed":[1,"a"],"nested":[[1],[2,3]],"null":null,"nulls":[null,1]}`, layout.Unknown, 0, "test", (*layout.Limits)(nil).WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	at := func(key string) any { v, _ := md.Get(key); return v }
	for i, c := range []struct {
		as   func(any) (any, bool)
		v    any
		want any // nil: not that type
	}{
		{as[int], json.Number("7"), 7}, {as[int], uint8(7), 7}, {as[int], int64(-7), -7}, {as[int], uint64(math.MaxUint64), nil},
		{as[int], json.Number("7.0"), nil}, {as[int], json.Number("99999999999999999999"), nil}, {as[int], 7.0, nil}, {as[int], "7", nil}, {as[int], true, nil},
		{as[int8], json.Number("127"), int8(127)}, {as[int8], json.Number("128"), nil}, {as[int8], uint32(256), nil},
		{as[uint32], int32(5), uint32(5)}, {as[uint32], int32(-5), nil}, {as[uint32], json.Number("-5"), nil}, {as[uint8], uint16(256), nil},
		{as[uint64], uint64(math.MaxUint64), uint64(math.MaxUint64)}, {as[uint64], json.Number("18446744073709551615"), uint64(math.MaxUint64)},
		{as[float64], json.Number("1e300"), 1e300}, {as[float32], json.Number("1e300"), nil}, {as[float32], 1e300, nil}, {as[float32], 0.5, float32(0.5)},
		{as[float64], int8(-3), -3.0}, {as[float64], uint8(3), 3.0}, {as[float64], "-Infinity", math.Inf(-1)}, {as[float64], "1", nil}, {as[float64], "inf", nil},
		{as[bool], true, true}, {as[bool], 1, nil}, {as[string], "a", "a"}, {as[string], json.Number("1"), nil},
		{as[[]int], at("ints"), []int{1, 2}}, {as[[]float32], at("ints"), []float32{1, 2}}, {as[[]int], at("floats"), nil}, {as[[]string], at("mixed"), nil},
		{as[[]any], at("mixed"), []any{json.Number("1"), "a"}}, {as[[][]int], at("nested"), [][]int{{1}, {2, 3}}}, {as[[]any], at("nulls"), []any{nil, json.Number("1")}},
		{as[[]int], at("nulls"), nil}, {as[int], at("null"), nil}, {as[[]int], at("null"), nil},
		{as[[]int], []uint32{1, 2}, []int{1, 2}}, {as[[]uint8], []int32{1, 256}, nil}, {as[[]float64], []float32{0.5}, []float64{0.5}}, {as[[]int], []string{"a"}, nil},
		{as[[]byte], layout.Blob("ab"), []byte("ab")}, {as[[]string], []string{}, []string{}}, {as[[]int], json.Number("1"), nil}, {as[[]int], md, nil},
		{as[layout.Metadata], layout.Metadata{{Key: "a", Value: 1}}, layout.Metadata{{Key: "a", Value: 1}}}, {as[layout.Metadata], 1, nil},
	} {
		got, ok := c.as(c.v)
		if ok != (c.want != nil) || ok && !reflect.DeepEqual(got, c.want) || !ok && !reflect.ValueOf(got).IsZero() {
			t.Errorf("%d: %T(%v) is %T(%v), %v; want %v", i, c.v, c.v, got, got, ok, c.want)
		}
	}
	if f, ok := layout.As[[]float64](at("floats")); !ok || f[1] != 2.5 || !math.IsNaN(f[2]) {
		t.Errorf("%v, %v", f, ok)
	}
}

func TestGet(t *testing.T) {
	md := layout.Metadata{{Key: "a", Value: layout.Metadata{{Key: "b", Value: json.Number("3")}}}}
	if n, err := layout.Get[uint16](md, "a", "b"); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := layout.Get[string](md, "a", "b"); !errors.Is(err, layout.ErrInvalid) || !strings.Contains(err.Error(), `"a.b": invalid: a json.Number, want string`) {
		t.Error(err)
	}
	if _, err := layout.Get[int](md, "a", "c"); !errors.Is(err, layout.ErrNotFound) {
		t.Error(err)
	}
}
