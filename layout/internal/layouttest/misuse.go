package layouttest

import "testing"

// Misused makes calls of w, a writer. All but the last must succeed. It returns the error
// of the last. All later calls must return the same error: callers that look only at the error of
// Close must learn of the first one.
func Misused[W any](t testing.TB, w W, calls []func(W) error, later ...func(W) error) error {
	t.Helper()
	last := len(calls) - 1
	for i, call := range calls[:last] {
		if err := call(w); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	err := calls[last](w)
	if err == nil {
		t.Fatal("no error")
	}
	for i, call := range later {
		if again := call(w); again != err {
			t.Errorf("later call %d: %v, want %v", i, again, err)
		}
	}
	return err
}
