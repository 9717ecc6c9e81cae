package mmapio

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
)

func TestGuardReturnsError(t *testing.T) {
	want := errors.New("mine")
	if err := Guard(func() error { return want }); err != want {
		t.Errorf("got %v", err)
	}
	if err := Guard(func() error { return nil }); err != nil {
		t.Errorf("got %v", err)
	}
}

// recovered returns what f panics with.
func recovered(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

func TestGuardLeavesOtherPanics(t *testing.T) {
	type private struct{ n int }
	value := &private{1}
	var nilStruct *private
	index := 5
	tests := []struct {
		name  string
		f     func() error
		check func(v any) bool
	}{
		{"value", func() error { panic(value) }, func(v any) bool { return v == any(value) }},
		{"error", func() error { panic(errDisk) }, func(v any) bool { return v == any(errDisk) }},
		{"nil", func() error { panic(nil) }, func(v any) bool { _, ok := v.(*runtime.PanicNilError); return ok }},
		{"nil pointer", func() error { nilStruct.n++; return nil }, isRuntimeError("runtime error: invalid memory address or nil pointer dereference")},
		{"index", func() error { _ = make([]int, 3)[index]; return nil }, isRuntimeError("runtime error: index out of range [5] with length 3")},
	}
	for _, tt := range tests {
		for _, setting := range []bool{false, true} {
			old := debug.SetPanicOnFault(setting)
			if v := recovered(func() { Guard(tt.f) }); !tt.check(v) {
				t.Errorf("%s: panic value %#v", tt.name, v)
			}
			if now := debug.SetPanicOnFault(old); now != setting {
				t.Errorf("%s: setting is %v afterwards", tt.name, now)
			}
		}
	}
}

func isRuntimeError(text string) func(v any) bool {
	return func(v any) bool {
		err, ok := v.(runtime.Error)
		return ok && err.Error() == text
	}
}

func TestGuardLeavesGoexit(t *testing.T) {
	var wg sync.WaitGroup
	returned, deferred := false, false
	wg.Go(func() {
		defer func() { deferred = recover() == nil && !debug.SetPanicOnFault(false) }()
		Guard(func() error { runtime.Goexit(); return nil })
		returned = true
	})
	wg.Wait()
	if returned || !deferred {
		t.Errorf("returned %v, deferred calls saw no panic and the old setting: %v", returned, deferred)
	}
}

func TestGuardRestoresSetting(t *testing.T) {
	setting := func() bool {
		now := debug.SetPanicOnFault(false)
		debug.SetPanicOnFault(now)
		return now
	}
	for _, before := range []bool{false, true} {
		old := debug.SetPanicOnFault(before)
		Guard(func() error {
			if !setting() {
				t.Error("faults do not panic inside Guard")
			}
			Guard(func() error { debug.SetPanicOnFault(false); return nil })
			if !setting() {
				t.Error("faults do not panic after an inner Guard")
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if setting() {
					t.Error("Guard reaches other goroutines")
				}
			})
			wg.Wait()
			return nil
		})
		if setting() != before {
			t.Errorf("setting is %v after Guard, was %v", !before, before)
		}
		debug.SetPanicOnFault(old)
	}
}

func TestGuardAllocatesNothing(t *testing.T) {
	var sum byte
	b := noise(100)
	if n := testing.AllocsPerRun(100, func() {
		Guard(func() error { sum += b[50]; return nil })
	}); n != 0 {
		t.Errorf("Guard allocates %v times", n)
	}
}
