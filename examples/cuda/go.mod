module github.com/tensormap/tensormap/examples/cuda

go 1.26.0

require (
	github.com/ebitengine/purego v0.11.3
	github.com/tensormap/tensormap v0.0.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/agnivade/levenshtein v1.2.2 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	golang.org/x/exp v0.0.0-20261014143641-f0251eb4aa3e // indirect
	golang.org/x/time v0.16.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/tensormap/tensormap => ../..
