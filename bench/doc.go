// Package bench measures the whole path, from a path name to numbers. Benchmarks name
// what they vary as key=value, so that benchstat can compare runs:
//
//	make bench                     # everything, with pprof profiles in bench/out
//	make bench BENCH=Open/format=apr2
//
// Times are for files in the page cache. Ratios within one run mean something; absolute
// figures are figures of one machine.
package bench
