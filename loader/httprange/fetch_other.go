//go:build !js

package httprange

// fetches reports false: requests go through no browser.
func fetches() bool { return false }
