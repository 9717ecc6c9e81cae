//go:build !js

package httprange

func fetches() bool { return false }
