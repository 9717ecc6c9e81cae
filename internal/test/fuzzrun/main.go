// Fuzzrun runs every fuzz target of the module in turns and counts the CPU time of each.
//
//	go run ./internal/test/fuzzrun -corpus ~/fuzz -cpu 8h
//
// The target with the least CPU time so far goes next, so the time is shared evenly even
// when runs are interrupted. Inputs that reach new code are saved in the corpus folder and
// are where the next run begins. A failing input is moved to findings/ there, with the
// output that goes with it. Exit status 1 means at least one finding.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A target is one fuzz function and what the log says about it.
type target struct {
	pkg, dir, name string
	executions     int64
	cpu            time.Duration
	turns          int
	findings       int
}

// A turn is one line of the log: one run of one target.
type turn struct {
	Start      time.Time `json:"start"`
	Commit     string    `json:"commit"`
	Package    string    `json:"package"`
	Target     string    `json:"target"`
	Executions int64     `json:"executions"`
	CPUSeconds float64   `json:"cpu_seconds"`
	Seconds    float64   `json:"seconds"`
	Corpus     int64     `json:"corpus"`
	Result     string    `json:"result"`
}

func main() {
	corpus := flag.String("corpus", "", "`folder` that keeps inputs, the log and findings")
	cpu := flag.Duration("cpu", time.Hour, "end after this much CPU time in all")
	wall := flag.Duration("wall", 0, "end after this much time by the clock; 0: no limit")
	length := flag.String("turn", "1m", "one turn: a `time` by the clock or, with x behind it, a number of executions")
	once := flag.Bool("once", false, "end after one turn of each target, whatever the log says")
	workers := flag.Int("parallel", 1, "workers of one turn")
	match := flag.String("run", "", "only targets whose package and name match this `regexp`")
	total := flag.Bool("total", false, "print what the log says and end")
	flag.Parse()
	limit, err := turnLimit(*length)
	if *corpus == "" || flag.NArg() > 0 || err != nil {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := newRunner(*corpus, *match)
	if err == nil && !*total {
		r.length, r.limit, r.workers = *length, limit, strconv.Itoa(*workers)
		err = r.run(ctx, *cpu, *wall, *once)
	}
	if r != nil {
		r.print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzrun:", err)
		os.Exit(1)
	}
}

type runner struct {
	corpus  string
	bin     string
	commit  string
	targets []*target
	built   map[string]bool
	length  string        // of a turn, as go test -fuzztime has it
	limit   time.Duration // after which a turn is ended
	workers string
}

// turnLimit returns the time after which a turn of a length is ended.
func turnLimit(length string) (time.Duration, error) {
	if n, ok := strings.CutSuffix(length, "x"); ok {
		_, err := strconv.ParseUint(n, 10, 31)
		return 10 * time.Minute, err
	}
	d, err := time.ParseDuration(length)
	return 2*d + time.Minute, err
}

// newRunner returns a runner of the targets that match, with what the log in folder corpus says of them.
func newRunner(corpus, match string) (*runner, error) {
	corpus, err := filepath.Abs(corpus)
	if err != nil {
		return nil, err
	}
	wanted, err := regexp.Compile(match)
	if err != nil {
		return nil, err
	}
	r := &runner{corpus: corpus, bin: filepath.Join(corpus, "bin"), built: map[string]bool{}}
	if err := os.MkdirAll(r.bin, 0o777); err != nil {
		return nil, err
	}
	commit, _ := output("git", "rev-parse", "--short", "HEAD") // there may be no repository
	r.commit = strings.TrimSpace(commit)
	packages, err := output("go", "list", "-f", "{{.ImportPath}} {{.Dir}}", "./...")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(packages) {
		pkg, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		names, err := fuzzTargets(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if wanted.MatchString(pkg + "." + name) {
				r.targets = append(r.targets, &target{pkg: pkg, dir: dir, name: name})
			}
		}
	}
	if len(r.targets) == 0 {
		return nil, errors.New("no fuzz target matches")
	}
	return r, r.readLog()
}

var declaration = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// fuzzTargets lists the fuzz functions that the test files of a folder declare.
func fuzzTargets(dir string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range declaration.FindAllSubmatch(source, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names, nil
}

func (r *runner) logName() string { return filepath.Join(r.corpus, "log") }

// readLog adds the turns of earlier runs to the targets.
func (r *runner) readLog() error {
	text, err := os.ReadFile(r.logName())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		var t turn
		if err := json.Unmarshal(line, &t); err != nil {
			return fmt.Errorf("%s: %w", r.logName(), err)
		}
		for _, target := range r.targets {
			if target.pkg == t.Package && target.name == t.Target {
				target.add(t)
			}
		}
	}
	return nil
}

// add counts a turn of the target.
func (t *target) add(turn turn) {
	t.executions += turn.Executions
	t.cpu += time.Duration(turn.CPUSeconds * float64(time.Second))
	t.turns++
	if turn.Result != "ok" {
		t.findings++
	}
}

// run gives turns until the CPU time cpu or the time wall is used up, or ctx ends. The target with the least CPU time is
// next. If once is set, it gives one turn to each target. It returns an error if a turn had a finding.
func (r *runner) run(ctx context.Context, cpu, wall time.Duration, once bool) error {
	start, findings := time.Now(), 0
	var used time.Duration
	for i := 0; once && i < len(r.targets) || !once && used < cpu && (wall == 0 || time.Since(start) < wall) && ctx.Err() == nil; i++ {
		next := r.targets[i%len(r.targets)]
		if !once {
			next = slices.MinFunc(r.targets, func(a, b *target) int { return cmp.Compare(a.cpu, b.cpu) })
		} else if err := ctx.Err(); err != nil {
			return err
		}
		before := *next
		if err := r.take(ctx, next); err != nil {
			return err
		}
		used += next.cpu - before.cpu
		findings += next.findings - before.findings
	}
	if findings == 0 {
		return nil
	}
	return fmt.Errorf("%d turns ended with a finding: see %s", findings, filepath.Join(r.corpus, "findings"))
}

// take builds a target, gives it a turn and appends a line to the log.
func (r *runner) take(ctx context.Context, next *target) error {
	if err := r.build(ctx, next); err != nil {
		return err
	}
	t, err := r.turn(ctx, next)
	if err != nil {
		return err
	}
	line, err := json.Marshal(t)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(r.logName(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_, err = log.Write(append(line, '\n'))
	next.add(t)
	fmt.Printf("%s %s.%s %d executions, %.1f CPU seconds, %d inputs: %s\n", t.Start.Format(time.TimeOnly),
		t.Package, t.Target, t.Executions, t.CPUSeconds, t.Corpus, t.Result)
	return errors.Join(err, log.Close())
}

// binary names the test binary of a package.
func (r *runner) binary(pkg string) string {
	return filepath.Join(r.bin, strings.ReplaceAll(pkg, "/", "_")+".test")
}

// build compiles the package's tests with the instrumentation that fuzzing needs.
func (r *runner) build(ctx context.Context, t *target) error {
	if r.built[t.pkg] {
		return nil
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-fuzz", "^"+t.name+"$", "-o", r.binary(t.pkg), t.pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", t.pkg, err, out)
	}
	r.built[t.pkg] = true
	return nil
}

var (
	progress = regexp.MustCompile(`execs: (\d+) .*\(total: (\d+)\)`)
	failing  = regexp.MustCompile(`Failing input written to (\S+)`)
)

// turn runs one target once and moves a failing input out of the source tree.
func (r *runner) turn(ctx context.Context, t *target) (turn, error) {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, r.binary(t.pkg), "-test.run", "^$", "-test.fuzz", "^"+t.name+"$", "-test.fuzztime", r.length,
		"-test.fuzzminimizetime", "100x", "-test.parallel", r.workers, "-test.fuzzcachedir", filepath.Join(r.corpus, "inputs", t.pkg))
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.dir, &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	result := turn{Start: time.Now().UTC().Truncate(time.Second), Commit: r.commit, Package: t.pkg, Target: t.name}
	err := cmd.Run()
	result.Seconds = time.Since(result.Start).Round(time.Millisecond).Seconds()
	if cmd.ProcessState == nil {
		return result, err
	}
	// The worker is a child for which the test binary waits, so its time is included.
	result.CPUSeconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	if all := progress.FindAllSubmatch(out.Bytes(), -1); all != nil {
		last := all[len(all)-1]
		result.Executions, _ = strconv.ParseInt(string(last[1]), 10, 64)
		result.Corpus, _ = strconv.ParseInt(string(last[2]), 10, 64)
	}
	m := failing.FindSubmatch(out.Bytes())
	switch {
	case err == nil || ctx.Err() != nil && m == nil:
		result.Result = "ok"
	case m == nil && bytes.Contains(out.Bytes(), []byte("context deadline exceeded")):
		result.Result = "ok" // the engine's own deadline, not the target's failure
	case m != nil && bytes.Contains(out.Bytes(), []byte("hung or terminated unexpectedly: exit status 2")) && r.passes(t, string(m[1])):
		// The engine gives an input ten seconds by the clock, also while the machine does not let it run.
		result.Result, err = "ok", os.Remove(filepath.Join(t.dir, string(m[1])))
		return result, err
	default:
		result.Result, err = r.saveFinding(t, m, out.Bytes())
		return result, err
	}
	return result, nil
}

// passes reports whether 20 executions of a target with an input in its testdata succeed.
func (r *runner) passes(t *target, input string) bool {
	cmd := exec.Command(r.binary(t.pkg), "-test.run", "^"+t.name+"$/^"+filepath.Base(input)+"$", "-test.count", "20", "-test.timeout", "2m")
	cmd.Dir = t.dir
	return cmd.Run() == nil
}

// saveFinding moves a failing input, if there is one, and the output of its turn to the folder of findings. It returns
// the result for the log.
func (r *runner) saveFinding(t *target, input [][]byte, out []byte) (string, error) {
	dir := filepath.Join(r.corpus, "findings", t.pkg, t.name)
	name := "failure-" + time.Now().UTC().Format("20060102T150405")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	if input != nil {
		from := filepath.Join(t.dir, string(input[1]))
		name = filepath.Base(from)
		data, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name), data, 0o666), os.Remove(from)); err != nil {
			return "", err
		}
	}
	return "finding " + name, os.WriteFile(filepath.Join(dir, name+".txt"), out, 0o666)
}

// print writes a table of everything that the log says of the targets.
func (r *runner) print(w io.Writer) {
	var all target
	fmt.Fprintf(w, "%12s %14s %6s %9s  target\n", "CPU seconds", "executions", "turns", "findings")
	row := func(t *target, name string) {
		fmt.Fprintf(w, "%12.1f %14d %6d %9d  %s\n", t.cpu.Seconds(), t.executions, t.turns, t.findings, name)
	}
	for _, t := range r.targets {
		row(t, t.pkg+"."+t.name)
		all.cpu += t.cpu
		all.executions += t.executions
		all.turns += t.turns
		all.findings += t.findings
	}
	row(&all, fmt.Sprintf("all %d targets, %.2f CPU hours", len(r.targets), all.cpu.Hours()))
}

// output runs a command and returns its standard output.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}
