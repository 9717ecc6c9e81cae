//go:build unix

package attack

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/testmode"
)

// verbs are the command lines that read a model. FILE stands for the model, TENSOR for one of
// its tensors; what is written is called out.
var verbs = []string{
	"inspect FILE", "inspect FILE --json", "inspect FILE --metadata", "inspect FILE --tree --sort size", "inspect FILE --graph",
	"verify FILE", "verify FILE --json",
	"dump FILE TENSOR", "dump FILE TENSOR --as raw", "dump FILE TENSOR --as npy", "dump FILE TENSOR --as text -o out.txt", "dump FILE TENSOR -o out.f32",
	"stats FILE", "stats FILE --json --bins 0", "hash FILE", "hash FILE --stored --json", "diff FILE FILE", "diff FILE FILE --tolerance 0 --metadata",
	"map FILE --resident=false", "map FILE --resident=false -o out.svg", "explore FILE -o out.html", "diff FILE FILE -o out.html",
	"convert FILE out.apr", "convert FILE out.apr --compress", "convert FILE out.safetensors", "convert FILE out.apr --dtype f16",
	"convert FILE out.apr --shard-size 100KB", "convert FILE out.safetensors --shard-size 100KB", "convert FILE out.apr --dtype i8 --dry-run",
	"convert FILE out.gguf", "split FILE out.gguf --shard-size 200KB",
	"split FILE out.apr --shard-size 200KB", "merge FILE out.apr", "merge FILE out.safetensors", "upgrade FILE out.apr",
}

// outside are verbs that read no model, or, as sign, write something else each time.
var outside = []string{"help", "completion", "version", "keygen", "pull", "sign", "cache"}

// TestEveryVerbIsAttacked holds the command lines against what the command offers.
func TestEveryVerbIsAttacked(t *testing.T) {
	testmode.Sequential(t)
	text, err := exec.Command(buildCommand(t), "help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	_, list, _ := strings.Cut(string(text), "Verbs:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var names []string
	for line := range strings.Lines(list) {
		names = append(names, strings.Fields(line)[0])
	}
	if len(names) < 5 {
		t.Fatalf("the verbs are not found in %q", text)
	}
	for _, name := range names {
		attacked := slices.ContainsFunc(verbs, func(line string) bool { return strings.HasPrefix(line, name+" ") })
		if !attacked && !slices.Contains(outside, name) {
			t.Errorf("%s is new: add its command lines to verbs in internal/test/attack", name)
		}
	}
}

// An outcome is all that a run of the command leaves.
type outcome struct {
	status int // -1: it died
	stdout string
	stderr string
	files  string // names and digests of what it has written
	took   time.Duration
}

// words makes the arguments of a command line.
func words(line, file, tensor string) []string {
	args := strings.Fields(line)
	for i, a := range args {
		switch a {
		case "FILE":
			args[i] = file
		case "TENSOR":
			args[i] = tensor
		}
	}
	return args
}

// start starts the command in a folder.
func (a *arena) start(dir string, args []string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	cmd := exec.Command(a.command, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	check(cmd.Start())
	return cmd, &stdout, &stderr
}

// durations match what verify says of the time that it took.
var durations = regexp.MustCompile(`[0-9.]+ ((µs|ms|s)\b|[KMG]iB/s)`)

// run runs the command in a folder; meanwhile, if it is not nil, runs beside it.
func (a *arena) run(dir string, args []string, meanwhile func()) outcome {
	begin := time.Now()
	cmd, stdout, stderr := a.start(dir, args)
	if meanwhile != nil {
		meanwhile()
	}
	var err error
	ends(fmt.Sprint(args), func() { err = cmd.Wait() })
	return outcome{exitStatus(err), durations.ReplaceAllString(stdout.String(), ""), stderr.String(), written(dir), time.Since(begin)}
}

// written lists what is called out in a folder, with digests.
func written(dir string) string {
	var list strings.Builder
	for _, e := range must(os.ReadDir(dir)) {
		if strings.HasPrefix(e.Name(), "out") {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue // another process has renamed it
			}
			check(err)
			fmt.Fprintf(&list, "%s %x\n", e.Name(), sha256.Sum256(b))
		}
	}
	return list.String()
}

// leftovers lists temporary files.
func leftovers(dir string) (names []string) {
	for _, e := range must(os.ReadDir(dir)) {
		if strings.Contains(e.Name(), ".tmp-") {
			names = append(names, e.Name())
		}
	}
	return names
}

// died reports whether the command ended by a crash of its own.
func (o *outcome) died() bool {
	return o.status != 0 && o.status != 1 || strings.Contains(o.stderr, "goroutine ") || strings.Contains(o.stderr, "panic:")
}

// beginVerbs changes files under the command.
func beginVerbs(a *arena) func(*round) {
	list := slices.DeleteFunc(models(a), func(m *model) bool { return !m.plain() })
	known := map[string]outcome{}
	return func(r *round) {
		all, line := pick(r.Rand, list), pick(r.Rand, verbs)
		t := pick(r.Rand, all.tensors)
		path := all.put(r.dir)
		args := words(line, filepath.Base(path), t.name)
		key := fmt.Sprint(all.name, args)
		want, ok := known[key]
		if !ok {
			want = a.run(r.dir, args, nil)
			known[key] = want
			if want.died() {
				r.errorf("%s: %q, unharmed: status %d\n%s", all.name, args, want.status, want.stderr)
			}
			clean(r.dir)
			all.put(r.dir)
		}
		files := all.weights()
		c := r.choose(files)
		rng := r.split()
		pause := time.Duration(r.Float64() * 1.3 * float64(want.took))
		got := a.run(r.dir, args, func() {
			time.Sleep(pause)
			r.apply(c, all, rng)
		})
		r.count(c.kind, 1)
		name := fmt.Sprintf("%s: %q, %s %s to %d after %v", all.name, args, c.kind, c.file, c.cut, pause)
		r.verdict(name, args, &want, &got)
		if left := leftovers(r.dir); left != nil {
			r.errorf("%s: status %d and %v left behind", name, got.status, left)
		}
	}
}

// verdict compares what a verb did to a file that changed with what it does to one that stays.
func (r *round) verdict(name string, args []string, want, got *outcome) {
	switch {
	case got.died():
		r.errorf("%s: status %d\n%.5000s", name, got.status, got.stderr)
	case got.status == want.status && got.stdout == want.stdout && got.files == want.files:
		r.count("right", 1)
	case got.status == 1:
		r.count("errors", 1)
		if got.files != "" && got.files != want.files {
			r.errorf("%s: status 1 and\n%swhere\n%swould be whole", name, got.files, want.files)
		}
		lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n") // notes, then the reason
		if !strings.HasPrefix(lines[len(lines)-1], "tensormap: ") && got.stdout == "" {
			r.errorf("%s: status 1 and no reason: %q", name, got.stderr)
		}
	default: // the file's size, time of change or identity tells, but if it changed before it was opened
		if again := r.run(r.dir, args, nil); again.status == 0 && again.stdout == got.stdout && again.files == got.files {
			r.count("another file", 1)
			return
		}
		r.errorf("%s: status 0, and something else than without the change:\n%.2000q%s", name, difference(want.stdout, got.stdout), got.files)
	}
}

func clean(dir string) {
	for _, e := range must(os.ReadDir(dir)) {
		check(os.RemoveAll(filepath.Join(dir, e.Name())))
	}
}

// beginKill kills writers at random moments, lets two of them write to one output, and wants
// a model there that is whole, old or new.
func beginKill(a *arena) func(*round) {
	list := models(a)[:6]
	lines := slices.DeleteFunc(slices.Clone(verbs), func(line string) bool {
		return !strings.Contains(line, "out.") || strings.Contains(line, "dump") || strings.Contains(line, "map ") || strings.Contains(line, "upgrade") || strings.Contains(line, "dry-run")
	})
	known := map[string]outcome{}
	// alone runs a command line in an empty folder, for a model that lies in a folder within: a page says where its model lay.
	alone := func(r *round, all *model, within, line string) outcome {
		key := all.name + within + line
		if o, ok := known[key]; ok {
			return o
		}
		dir := filepath.Join(r.dir, "alone")
		check(os.MkdirAll(filepath.Join(dir, within), 0o777))
		o := a.run(dir, words(line, filepath.Join(within, filepath.Base(all.put(filepath.Join(dir, within)))), ""), nil)
		check(os.RemoveAll(dir))
		known[key] = o
		return o
	}
	return func(r *round) {
		old, line := pick(r.Rand, list), pick(r.Rand, lines)
		all, other := pick(r.Rand, list), line
		if r.chance(2) { // single files and shards under one name
			other = pick(r.Rand, lines)
		}
		before, after := alone(r, old, "in2", other), alone(r, all, "in", line)
		if before.status != 0 || after.status != 0 || leadName(before.files) != leadName(after.files) {
			return // the verb has nothing to do with this model, or does not replace what is there
		}
		name := fmt.Sprintf("%s: %q over %s: %q", all.name, line, old.name, other)
		in := filepath.Join(r.dir, "in")
		check(os.Mkdir(in, 0o777))
		path := filepath.Join("in", filepath.Base(all.put(in)))
		in2 := filepath.Join(r.dir, "in2")
		check(os.Mkdir(in2, 0o777))
		path2 := filepath.Join("in2", filepath.Base(old.put(in2)))
		if r.chance(2) {
			r.together(name, words(line, path, ""), words(other, path2, ""), &after, &before)
		} else {
			r.killed(name, words(line, path, ""), words(other, path2, ""), &after, &before)
		}
		// Whatever happened, the next writer makes it good and sweeps.
		last := r.run(r.dir, words(line, path, ""), nil)
		if last.status != 0 || !includes(last.files, after.files) {
			r.errorf("%s: afterwards: status %d\n%s%swant\n%s", name, last.status, last.stderr, last.files, after.files)
		}
		if left := leftovers(r.dir); left != nil {
			r.errorf("%s: %v stay after the next writer", name, left)
		}
	}
}

// includes reports whether every line of part is a line of all.
func includes(all, part string) bool {
	for line := range strings.Lines(part) {
		if !strings.Contains("\n"+all, "\n"+line) {
			return false
		}
	}
	return true
}

// leads returns the line of the file that leads to the others, or of the only one.
func leads(files string) string {
	for line := range strings.Lines(files) {
		if !strings.Contains(line, "-of-") {
			return line
		}
	}
	return ""
}

// leadName names that file.
func leadName(files string) string {
	name, _, _ := strings.Cut(leads(files), " ")
	return name
}

// killed kills a writer over an output that is there.
func (r *round) killed(name string, args, old []string, after, before *outcome) {
	if o := r.run(r.dir, old, nil); o.status != 0 || o.files != before.files {
		r.errorf("%s: before: status %d %s", name, o.status, o.stderr)
		return
	}
	pause := time.Duration(r.Float64() * 1.2 * float64(after.took))
	o := r.run2(r.dir, args, pause)
	r.count("kills", 1)
	if o.status == -1 {
		r.count("died by it", 1)
	}
	r.whole(fmt.Sprintf("%s, killed after %v", name, pause), written(r.dir), after, before)
}

// run2 runs the command and kills it.
func (a *arena) run2(dir string, args []string, pause time.Duration) outcome {
	cmd, _, stderr := a.start(dir, args)
	time.Sleep(pause)
	cmd.Process.Kill()
	return outcome{status: exitStatus(cmd.Wait()), stderr: stderr.String()}
}

// whole wants the file that leads to the others to stand for a whole model, or for none.
func (r *round) whole(name, files string, after, before *outcome) {
	for _, want := range []*outcome{after, before} {
		if lead := leads(want.files); lead != "" && includes(files, lead) {
			if includes(files, want.files) {
				r.count("whole", 1)
				return
			}
		}
	}
	for _, want := range []*outcome{after, before} {
		if strings.Contains("\n"+files, "\n"+leadName(want.files)+" ") {
			r.errorf("%s: %s is neither the old model nor the new one:\n%s, old\n%s, new\n%s", name, leadName(want.files), files, before.files, after.files)
			return
		}
	}
	r.count("nothing under the name", 1)
}

// together runs two writers to one output at once.
func (r *round) together(name string, one, two []string, a, b *outcome) {
	cmd1, _, err1 := r.start(r.dir, one)
	time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
	cmd2, _, err2 := r.start(r.dir, two)
	s1, s2 := exitStatus(cmd1.Wait()), exitStatus(cmd2.Wait())
	r.count("pairs", 1)
	o1, o2 := outcome{status: s1, stderr: err1.String()}, outcome{status: s2, stderr: err2.String()}
	if o1.died() || o2.died() || s1 != 0 && s2 != 0 {
		r.errorf("%s, at once: status %d %s and %d %s", name, s1, o1.stderr, s2, o2.stderr)
	}
	if s1 != 0 || s2 != 0 {
		r.count("losers that say so", 1)
	}
	r.whole(name+", at once", written(r.dir), a, b)
}
