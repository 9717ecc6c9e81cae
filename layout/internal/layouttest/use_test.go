package layouttest

import (
	"errors"
	"testing"
)

func TestMisusedNotices(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	says := func(err error) func(int) error { return func(int) error { return err } }
	ok, bad, other := says(nil), says(first), says(second)
	for _, tc := range []struct {
		name  string
		calls []func(int) error
		later []func(int) error
		fails bool
	}{
		{"in order", []func(int) error{ok, ok, bad}, []func(int) error{bad, bad}, false},
		{"too early", []func(int) error{bad, bad}, nil, true},
		{"no error", []func(int) error{ok}, nil, true},
		{"later another", []func(int) error{bad}, []func(int) error{bad, other}, true},
		{"later none", []func(int) error{bad}, []func(int) error{ok}, true},
	} {
		fails(t, tc.fails, tc.name, func(tb testing.TB) {
			if err := Misused(tb, 0, tc.calls, tc.later...); err != first {
				t.Errorf("%s: %v", tc.name, err)
			}
		})
	}
}
