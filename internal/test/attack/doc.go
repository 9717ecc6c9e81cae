// Package attack holds nothing but tests: attacks on what the other packages promise, for
// minutes or for hours.
//
//	make attack T=10m
//	go test ./internal/test/attack -v -attack.time 10m -attack.only 'truncate|race'
//
// Every attack is a subtest that repeats rounds until its share of the time is over. It
// runs in a process of its own, so the end of that process is a finding like any other. A
// finding names the seed and the round; with -attack.seed and -attack.round one round is
// played again. Attacks that race with other processes or goroutines may need many
// repetitions of a round. The attacks need a Unix system, and some of them Linux.
package attack
