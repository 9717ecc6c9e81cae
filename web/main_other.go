//go:build !js

package main

import (
	"fmt"
	"os"
)

// main says that the program runs in a browser.
func main() {
	fmt.Fprintln(os.Stderr, "this program runs in a browser: make web writes its page to web/dist")
	os.Exit(2)
}
