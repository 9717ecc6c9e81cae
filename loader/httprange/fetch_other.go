//go:build !js

package httprange

// usesBrowserFetch reports false: requests go through no browser.
func usesBrowserFetch() bool { return false }
