//go:build linux

package bench

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tensormap/tensormap/layout"
)

// BenchmarkCopy converts a SafeTensors file without re-encoding, by the command, until the new file is on disk for
// good, beside cp and sync. The metrics are the median time of cp and sync over that of the conversion.
func BenchmarkCopy(b *testing.B) {
	source := diskModel(b, layout.BF16).Name()
	dir := b.TempDir()
	command := filepath.Join(dir, "tensormap")
	run(b, "go", "build", "-o", command, "../cmd/tensormap")
	var outputs []string
	convert := func(name string) *way {
		out := filepath.Join(dir, name)
		outputs = append(outputs, out)
		return &way{name: "tensormap convert to " + name, work: func() { run(b, command, "convert", source, out) }}
	}
	apr2, safetensors := convert("out.apr"), convert("out.safetensors")
	copied := filepath.Join(dir, "copy")
	cp := &way{name: "cp, sync", work: func() {
		run(b, "cp", source, copied)
		run(b, "sync", copied)
	}}
	byTurns(b, func() {
		for _, path := range append(outputs, copied) {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				b.Fatal(err)
			}
		}
		unix.Sync() // what is freed, too
	}, apr2, safetensors, cp)
	b.ReportMetric(cp.seconds(0.5)/apr2.seconds(0.5), "cp/apr2")
	b.ReportMetric(cp.seconds(0.5)/safetensors.seconds(0.5), "cp/safetensors")
}

// run runs a command that has nothing to say.
func run(b *testing.B, name string, args ...string) {
	b.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}
