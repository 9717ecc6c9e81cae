//go:build unix

package attack

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// patience is how much time an attack may take without progress. It is time that the attack's processes have used, or
// in which none of them wanted to run: a machine that is busy with others uses up none of it.
const patience = time.Minute

// stuck waits until done is closed, and reports true if this process and those that it has started make no progress
// before. progress returns something else whenever they do.
func stuck(done <-chan struct{}, patience time.Duration, progress func() int) bool {
	const pause = 500 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var spent time.Duration
	at, before := progress(), time.Duration(0)
	for first := true; ; first = false {
		select {
		case <-done:
			return false
		case <-tick.C:
		}
		used, wants := activity(os.Getpid())
		more := used - before
		before = used
		if now := progress(); now != at || first {
			at, spent = now, 0
			continue
		}
		if more = max(more, 0); !wants {
			more = max(more, pause) // everybody waits, perhaps for ever
		}
		if spent += more; spent > patience {
			return true
		}
	}
}

// activity returns the CPU time of a process and of all that it has started, and whether one of their threads, but
// for the one that asks, runs, waits for a processor, or for a disk. Without /proc it knows nothing.
func activity(pid int) (used time.Duration, wants bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	family := map[int]bool{pid: true}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for grown := true; grown; { // a child may have a lower number than its parent
		grown = false
		for _, path := range paths {
			id, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if family[id] {
				continue
			}
			if parent, _ := strconv.Atoi(statOf(path)[1]); family[parent] {
				family[id], grown = true, true
			}
		}
	}
	for id := range family {
		for _, field := range statOf(fmt.Sprintf("/proc/%d/stat", id))[11:15] { // utime, stime, cutime, cstime
			const perSecond = 100 // USER_HZ, which is 100 on all of Linux
			n, _ := strconv.Atoi(field)
			used += time.Duration(n) * time.Second / perSecond
		}
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", id))
		for _, path := range threads {
			if filepath.Base(filepath.Dir(path)) != strconv.Itoa(threadID()) && strings.ContainsAny(statOf(path)[0], "RD") {
				wants = true
			}
		}
	}
	return used, wants
}

// statOf returns the fields of a file stat of /proc from the third on, empty ones if it is gone.
func statOf(path string) []string {
	b, _ := os.ReadFile(path)
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	return append(fields, make([]string, max(0, 15-len(fields)))...)
}

// TestStuck: work that is not over is told from work that does not go on, whatever the clock says.
func TestStuck(t *testing.T) {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("there is no /proc")
	}
	const patience = time.Second
	still := func() int { return 0 }
	if !stuck(make(chan struct{}), patience, still) {
		t.Error("a wait for ever is taken for work")
	}
	working := make(chan struct{})
	go func() {
		defer close(working)
		spin(patience / 2)
	}()
	if stuck(working, patience, still) {
		t.Error("half a second of work is taken for a hang")
	}
	var end atomic.Bool
	go func() {
		for !end.Load() {
		}
	}()
	if !stuck(make(chan struct{}), patience, still) {
		t.Error("a loop without end is taken for work")
	}
	end.Store(true)
	child := exec.Command("sh", "-c", "(n=0; while [ $n -lt 300000 ]; do n=$((n+1)); done); true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	done, seen := make(chan struct{}), time.Duration(0)
	go func() { defer close(done); child.Wait() }()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-time.After(20 * time.Millisecond):
			used, _ := activity(os.Getpid())
			seen = max(seen, used-processTime())
		}
	}
	if seen < 50*time.Millisecond {
		t.Errorf("of what a child's child does, %v are seen", seen)
	}
	begun, calls := processTime(), 0
	done = make(chan struct{})
	go func() {
		defer close(done)
		spin(2 * patience)
	}()
	if stuck(done, patience, func() int { calls++; return calls }) {
		t.Errorf("progress is taken for a hang after %v", processTime()-begun)
	}
}

// spin uses CPU time.
func spin(d time.Duration) {
	for begun := processTime(); processTime() < begun+d; {
	}
}
