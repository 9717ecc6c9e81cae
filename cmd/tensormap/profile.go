package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"

	"github.com/spf13/cobra"
)

// profiles are the files that the Go profiles of a run go to; empty is none.
type profiles struct {
	cpu, mem string
	cpuFile  *os.File
}

func (p *profiles) addFlags(root *cobra.Command) {
	root.PersistentFlags().StringVar(&p.cpu, "cpuprofile", "", "write a CPU profile to `FILE`, for go tool pprof")
	root.PersistentFlags().StringVar(&p.mem, "memprofile", "", "write a profile of allocations to `FILE`")
}

func (p *profiles) start() error {
	if p.cpu == "" {
		return nil
	}
	f, err := os.Create(p.cpu)
	if err != nil {
		return err
	}
	p.cpuFile = f
	return pprof.StartCPUProfile(f)
}

// stop writes the profiles, also those of a run that failed.
func (p *profiles) stop() error {
	var err error
	if p.cpuFile != nil {
		pprof.StopCPUProfile()
		err = p.cpuFile.Close()
	}
	if p.mem != "" {
		err = errors.Join(err, writeAllocs(p.mem))
	}
	return err
}

func writeAllocs(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	runtime.GC() // what is in use is counted as of the last collection
	if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
