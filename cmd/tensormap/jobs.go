package main

import (
	"errors"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"
)

// jobs is a flag that counts threads; 0 is as many as there are cores.
type jobs uint

// maxJobs is more than any machine can use.
const maxJobs = 1024

func (j *jobs) String() string { return strconv.Itoa(int(*j)) }
func (j *jobs) Type() string   { return "uint" }

func (j *jobs) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		return err // which flagError words
	}
	*j = jobs(min(n, maxJobs)) // out of range, n is the most there is
	return nil
}

// addTo declares the flag.
func (j *jobs) addTo(cmd *cobra.Command) {
	cmd.Flags().VarP(j, "jobs", "j", "work with `N` threads (default: all cores)")
	complete(cmd, "jobs", cobra.NoFileCompletions)
}

// limit holds the whole process to so many threads until restore is called. It serves work that
// is divided by GOMAXPROCS.
func (j jobs) limit() (restore func()) {
	if j == 0 {
		return func() {}
	}
	before := runtime.GOMAXPROCS(int(j))
	return func() { runtime.GOMAXPROCS(before) }
}
