package kvcache

import (
	"math"
	"testing"
)

func TestMul(t *testing.T) {
	for _, c := range []struct {
		numbers []uint64
		want    uint64
	}{
		{nil, 1},
		{[]uint64{3, 5}, 15},
		{[]uint64{1 << 40, 1 << 40, 2}, math.MaxUint64},
		{[]uint64{1 << 40, 1 << 40, 0}, 0}, // not the product so far
	} {
		if got := Mul(c.numbers...); got != c.want {
			t.Errorf("Mul(%d) = %d, want %d", c.numbers, got, c.want)
		}
	}
}
