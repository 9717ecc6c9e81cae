package main

import (
	"slices"
	"testing"

	"github.com/tensormap/tensormap/loader"
)

func TestShare(t *testing.T) {
	for _, test := range []struct {
		name  string
		shape []int
		want  []loader.Range
	}{
		{"q_proj.weight", []int{8, 4}, []loader.Range{{First: 4, N: 2}, loader.All()}},
		{"down_proj.weight", []int{4, 8}, []loader.Range{loader.All(), {First: 4, N: 2}}},
		{"experts", []int{3, 8, 4}, []loader.Range{loader.All(), {First: 4, N: 2}, loader.All()}},
		{"norm.weight", []int{8}, nil},
		{"odd.weight", []int{7, 8}, nil},
	} {
		if got := share(test.name, test.shape, 2, 4); !slices.Equal(got, test.want) {
			t.Errorf("%s %v: %v, want %v", test.name, test.shape, got, test.want)
		}
	}
}
