package terminal

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// oneWord is how long one word of waiting serves for all reads that wait.
const oneWord = 2 * time.Second

// Waiting returns a function that tells a person which server is silent. It says nothing if w is no
// terminal, nor again while the last word is fresh: several reads wait at once.
func Waiting(w io.Writer) func(host string) {
	if !IsTerminal(w) {
		return nil
	}
	return waiting(w)
}

func waiting(w io.Writer) func(host string) {
	var mu sync.Mutex
	var said time.Time
	return func(host string) {
		mu.Lock()
		defer mu.Unlock()
		if !said.IsZero() && time.Since(said) < oneWord {
			return
		}
		said = time.Now()
		clear := ""
		if os.Getenv("TERM") != "dumb" {
			clear = "\r\x1b[K" // of a progress bar
		}
		fmt.Fprintf(w, "%swaiting for %s …\n", clear, Printable(host))
	}
}
