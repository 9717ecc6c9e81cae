package layouttest

import (
	"fmt"
	"runtime"
	"testing"
)

// complaints is a test that fails where nobody sees it.
type complaints struct {
	testing.TB
	first string // what the first failure said, or ""
}

func (c *complaints) Helper() {}

func (c *complaints) Error(args ...any) { c.Errorf("%s", fmt.Sprint(args...)) }

func (c *complaints) Errorf(format string, args ...any) {
	if c.first == "" {
		c.first = "failed: " + fmt.Sprintf(format, args...)
	}
}

func (c *complaints) Fatal(args ...any) { c.Fatalf("%s", fmt.Sprint(args...)) }

func (c *complaints) Fatalf(format string, args ...any) {
	c.Errorf(format, args...)
	runtime.Goexit()
}

// fails makes sure that check fails, or that it does not.
func fails(t *testing.T, want bool, what string, check func(testing.TB)) {
	t.Helper()
	c := new(complaints)
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(c)
	}()
	<-done
	if got := c.first != ""; got != want {
		t.Errorf("%s: that it fails is %t; %s", what, got, c.first)
	}
}
