package httprange

import (
	"strings"
	"syscall/js"
)

// usesBrowserFetch reports whether net/http sends requests through the browser's fetch. As net/http does (roundtrip_js.go), it takes
// a process whose name begins with "node" for no browser.
func usesBrowserFetch() bool {
	process := js.Global().Get("process")
	node := process.Type() == js.TypeObject && strings.HasPrefix(process.Get("argv0").String(), "node")
	return !node && !js.Global().Get("fetch").IsUndefined()
}
