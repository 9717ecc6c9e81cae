package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"

	"github.com/spf13/cobra"

	"github.com/tensormap/tensormap/internal/atomicfile"
)

// profiles has the files that Go profiles of a run are written to; "" for none.
type profiles struct {
	cpu, mem string
	cpuFile  *atomicfile.File
}

// addFlags declares --cpuprofile and --memprofile.
func (p *profiles) addFlags(root *cobra.Command) {
	root.PersistentFlags().StringVar(&p.cpu, "cpuprofile", "", "write a CPU profile to `FILE`, for go tool pprof")
	root.PersistentFlags().StringVar(&p.mem, "memprofile", "", "write a profile of allocations to `FILE`")
}

// start begins the CPU profile. It returns an error for files that stop must not replace.
func (p *profiles) start() error {
	for _, path := range []string{p.cpu, p.mem} {
		if err := checkProfile(path); err != nil {
			return err
		}
	}
	if p.cpu == "" {
		return nil
	}
	f, err := atomicfile.Create(p.cpu)
	if err != nil {
		return err
	}
	p.cpuFile = f
	return pprof.StartCPUProfile(f)
}

// stop writes the profiles, also the profiles of a run that failed.
func (p *profiles) stop() (err error) {
	if p.cpuFile != nil {
		pprof.StopCPUProfile()
		if err = checkProfile(p.cpu); err == nil {
			err = p.cpuFile.Commit()
		}
		p.cpuFile.Abort()
	}
	if p.mem == "" {
		return err
	}
	wrong := checkProfile(p.mem)
	if wrong == nil {
		runtime.GC() // what is in use is counted as of the last collection
		wrong = writeFile(p.mem, func(w io.Writer) error { return pprof.Lookup("allocs").WriteTo(w, 0) })
	}
	return cmp.Or(err, wrong)
}

// checkProfile refuses to replace a file by a profile, a model say, unless it is empty or
// begins like a profile: as a gzip file (RFC 1952).
func checkProfile(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil // whoever creates the file says what may be wrong
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var magic [2]byte
	if _, err := io.ReadFull(f, magic[:]); err != nil || string(magic[:]) != "\x1f\x8b" {
		return fmt.Errorf("%s: is there already, and is no profile", path)
	}
	return nil
}
