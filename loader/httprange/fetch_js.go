package httprange

import (
	"strings"
	"syscall/js"
)

// usesBrowserFetch reports whether net/http sends requests through the browser's fetch. It does not in
// what is called node (net/http, roundtrip_js.go).
func usesBrowserFetch() bool {
	process := js.Global().Get("process")
	node := process.Type() == js.TypeObject && strings.HasPrefix(process.Get("argv0").String(), "node")
	return !node && !js.Global().Get("fetch").IsUndefined()
}
