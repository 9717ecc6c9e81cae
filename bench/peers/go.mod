module github.com/tensormap/tensormap/bench/peers

go 1.26.0

require (
	github.com/ollama/ollama v0.17.4
	github.com/tensormap/tensormap v0.0.0
	github.com/x448/float16 v0.8.4
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/tensormap/tensormap => ../..
