//go:build unix

package attack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	total  = flag.Duration("attack.time", 0, "time of all attacks together, beside their preparation; 0: none are run")
	only   = flag.String("attack.only", "", "the attacks to run, as a regular expression that matches whole names")
	rounds = flag.Int("attack.rounds", 0, "rounds of each attack, whatever time they take")
	seed   = flag.Uint64("attack.seed", 0, "seed of a run to play again")
	first  = flag.Int("attack.round", 0, "the first round; with -attack.rounds 1 the only one")

	command = flag.String("attack.command", "", "the tensormap command to attack, instead of one that is built for it")

	// What follows is how an attack is started in its process.
	victim = flag.String("attack.victim", "", "internal: the attack that this process runs")
	folder = flag.String("attack.folder", "", "internal: its temporary files")
)

// An attack is played in rounds. begin prepares it and returns what plays one.
type attack struct {
	name  string
	share int // of the time
	begin func(*arena) func(*round)
}

var attacks = []attack{
	{"truncate", 3, beginTruncate},
	{"verbs", 3, beginVerbs},
	{"race", 2, beginRace},
	{"mutate", 3, beginMutate},
	{"quantized", 2, beginQuantized},
	{"readers", 2, beginReaders},
	{"servers", 2, beginServers},
	{"kill", 3, beginKill},
	{"disk", 2, beginDisk},
	{"memory", 2, beginMemory},
	{"flood", 1, beginFlood},
}

func TestMain(m *testing.M) {
	flag.Parse()
	switch *victim {
	case "":
	case measure:
		os.Exit(runMeasure(*command, *folder))
	case starter:
		os.Exit(runStarter(flag.Args()))
	default:
		os.Exit(runVictim(*victim))
	}
	os.Exit(m.Run())
}

func TestAttack(t *testing.T) {
	if *total == 0 && *rounds == 0 {
		t.Skip("make attack T=10m runs the attacks")
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("seed %d", *seed)
	built := buildCommand(t)
	wanted := must(regexp.Compile("^(" + cmp.Or(*only, ".*") + ")$"))
	chosen := slices.DeleteFunc(slices.Clone(attacks), func(a attack) bool { return !wanted.MatchString(a.name) })
	shares := 0
	for _, a := range chosen {
		shares += a.share
	}
	for _, a := range chosen {
		t.Run(a.name, func(t *testing.T) {
			if a.name == "memory" && buildSetting("-race") == "true" {
				t.Skip("the race detector takes memory of its own")
			}
			watch(t, a, *total*time.Duration(a.share)/time.Duration(shares), built)
		})
	}
	fmt.Printf("attack: %.1f CPU s in all\n", cpu.Seconds())
}

// cpu is the CPU time that the attacks took, with the processes that they started.
var cpu time.Duration

// buildSetting returns how these tests were compiled.
func buildSetting(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return ""
}

// buildCommand compiles the tensormap command the way these tests were compiled.
func buildCommand(t *testing.T) string {
	if *command != "" {
		return *command
	}
	path := filepath.Join(t.TempDir(), "tensormap")
	args := []string{"build", "-o", path}
	for _, key := range []string{"-race", "-tags"} {
		if value := buildSetting(key); value != "" {
			args = append(args, key+"="+value)
		}
	}
	if out, err := exec.Command("go", append(args, "../../../cmd/tensormap")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// watch runs one attack in a process of its own and reports what that says, its death too.
func watch(t *testing.T, a attack, share time.Duration, built string) {
	dir := t.TempDir()
	t.Cleanup(func() { unmount(dir) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-attack.victim", a.name, "-attack.time", share.String(), "-attack.folder", dir,
		"-attack.command", built, "-attack.seed", fmt.Sprint(*seed), "-attack.round", fmt.Sprint(*first),
		"-attack.rounds", fmt.Sprint(*rounds))
	// New goroutines have the smallest stack, so code that faults has to grow it.
	cmd.Env = append(os.Environ(), "GODEBUG=adaptivestackstart=0", "GOTRACEBACK=single")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // for the stacks
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	ended := make(chan struct{})
	go func() { // a round that waits for something tells by itself what that is
		if stuck(ended, 3*patience, func() int { return playing(dir) }) {
			cancel()
		}
	}()
	err := cmd.Run()
	close(ended)
	took := time.Since(start).Round(time.Millisecond)
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	cpu += used
	again := fmt.Sprintf("-attack.only %s -attack.seed %d -attack.rounds 1 -attack.round ", a.name, *seed)
	if err != nil {
		t.Errorf("%v after %v and %d rounds; again: %s%d\n%s", err, took, playing(dir)+1, again, playing(dir), cut(stderr.Bytes()))
		return
	}
	var counts map[string]int64
	if err := json.Unmarshal(stdout.Bytes(), &counts); err != nil {
		t.Fatalf("%v: %.1000s", err, stdout.Bytes())
	}
	var line strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&line, ", %d %s", counts[name], name)
	}
	fmt.Printf("attack %-12s %7.1f s, %7.1f CPU s%s\n", a.name, took.Seconds(), used.Seconds(), line.String())
}

// cut keeps the beginning and the end of a long output.
func cut(out []byte) []byte {
	const most = 6_000
	if len(out) <= 2*most {
		return out
	}
	return slices.Concat(out[:most], []byte("\n…\n"), out[len(out)-most:])
}

// An arena is where one attack takes place: the process that it may kill.
type arena struct {
	dir     string
	command string

	mu       sync.Mutex
	counts   map[string]int64
	findings int
}

// A round is one repetition of an attack, all of whose choices follow from its number.
type round struct {
	*arena
	*rand.Rand
	number int
	dir    string // empty when the round begins
}

// mostFindings ends an attack: more of the same help nobody.
const mostFindings = 5

// runVictim plays rounds of the attack until the time is over.
func runVictim(name string) int {
	i := slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })
	a := &arena{dir: *folder, command: *command, counts: map[string]int64{}}
	play := attacks[i].begin(a)
	status, err := os.Create(filepath.Join(a.dir, statusName))
	if err != nil {
		panic(err)
	}
	start := time.Now()
	for n := *first; a.findings < mostFindings; n++ {
		if played := n - *first; played > 0 && (*rounds > 0 && played >= *rounds || *rounds == 0 && time.Since(start) > *total) {
			break
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		status.WriteAt(b[:], 0)
		a.play(play, n, name)
	}
	if a.findings > 0 {
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(a.counts); err != nil {
		panic(err)
	}
	return 0
}

func (a *arena) play(play func(*round), n int, name string) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], *seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(n))
	copy(key[16:], name)
	r := &round{arena: a, Rand: rand.New(rand.NewChaCha8(key)), number: n, dir: filepath.Join(a.dir, "round")}
	if err := os.MkdirAll(r.dir, 0o777); err != nil {
		panic(err)
	}
	play(r)
	if err := os.RemoveAll(r.dir); err != nil {
		panic(err)
	}
	a.count("rounds", 1)
}

const statusName = "status"

// playing reads which round the attack began last.
func playing(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, statusName))
	if err != nil || len(b) < 8 {
		return 0
	}
	return int(binary.LittleEndian.Uint64(b))
}

func (a *arena) count(what string, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[what] += n
}

// errorf reports a finding. The attack goes on, so that similar ones are seen together.
func (r *round) errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings++
	fmt.Fprintf(os.Stderr, "finding in round %d: %s\n", r.number, fmt.Sprintf(format, args...))
}

// must ends the attack when what it needs itself does not work.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(err error) { must(0, err) }

// chance reports true once in n times.
func (r *round) chance(n int) bool { return r.IntN(n) == 0 }

// pick returns one of a list.
func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// split makes a generator for a goroutine of its own.
func (r *round) split() *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }

// ends panics, with the stacks of all goroutines, if f gets stuck.
func ends(name string, f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	if stuck(done, patience, func() int { return 0 }) {
		pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		panic(name + " does not end")
	}
}

// exitStatus returns the status with which a process ended, or -1 for its death by a signal.
func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// number writes n for a name.
func number(n int) string { return strconv.Itoa(n) }
