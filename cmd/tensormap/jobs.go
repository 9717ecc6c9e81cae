package main

import (
	"cmp"
	"errors"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"
)

// jobs is the flag --jobs: a number of threads; 0 means as many as there are cores.
type jobs uint

// maxJobs is more than any machine can use.
const maxJobs = 1024

// set sets j to the number in s, at most maxJobs. It fails if s is not a whole number.
func (j *jobs) set(s string) error {
	n, err := strconv.ParseUint(s, 10, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		return err // flagError words it
	}
	*j = jobs(min(n, maxJobs)) // of a number that is out of range, n is the largest uint64
	return nil
}

// addTo declares the flag.
func (j *jobs) addTo(cmd *cobra.Command) { j.addAs(cmd, "work with `N` threads (default: all cores)") }

// addAs declares the flag with another usage.
func (j *jobs) addAs(cmd *cobra.Command, usage string) {
	cmd.Flags().FuncP("jobs", "j", usage, j.set)
	complete(cmd, "jobs", cobra.NoFileCompletions)
}

// count returns the number of threads: that of the flag, or one a core.
func (j jobs) count() int { return cmp.Or(int(j), runtime.GOMAXPROCS(0)) }

// limit sets GOMAXPROCS, the number of threads of the whole process, to j. restore sets it back. If j is 0, neither does anything.
func (j jobs) limit() (restore func()) {
	if j == 0 {
		return func() {}
	}
	before := runtime.GOMAXPROCS(int(j))
	return func() { runtime.GOMAXPROCS(before) }
}
