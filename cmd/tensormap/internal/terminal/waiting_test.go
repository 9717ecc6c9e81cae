package terminal

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWaiting: several reads that wait are one word.
func TestWaiting(t *testing.T) {
	if Waiting(new(strings.Builder)) != nil {
		t.Error("a file hears of waiting")
	}
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		say := noteWaiting(&said)
		for range 8 {
			say("h\n")
		}
		if said.String() != "\r\x1b[Kwaiting for h\\n …\n" {
			t.Errorf("%q", said.String())
		}
		time.Sleep(waitingPause)
		say("h")
		if strings.Count(said.String(), "waiting") != 2 {
			t.Errorf("%q", said.String())
		}
	})
}
