package dequant

import (
	"iter"

	"github.com/tensormap/tensormap/internal/parallel"
)

// inParallel calls f for consecutive ranges of at most grain of n elements, and returns the first
// range's error. As many goroutines as cores says take part, if n is large.
func inParallel(cores, n, grain int, f func(lo, hi int) error) error {
	if cores == AllCores {
		cores = parallel.Cores()
	}
	grains := (n + grain - 1) / grain
	workers := min(cores, grains)
	if n < parallelMin || workers < 2 {
		return f(0, n)
	}
	return parallel.Each(workers, parallel.Range(uint64(grains)), func(grains iter.Seq[uint64]) error {
		for i := range grains {
			lo := int(i) * grain
			if err := f(lo, min(lo+grain, n)); err != nil {
				return err
			}
		}
		return nil
	})
}
