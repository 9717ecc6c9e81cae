// Package browsertest tests the page of package explore in Chromium, over all three of its hosts: the command's server, the
// WebAssembly of package web, and a page in one file.
//
// Its tests are skipped where there is no Chromium: CHROMIUM names one, or it is found in PATH. MiniLM comes from PyPI, or from
// the directory MINILM. Times are held to their budgets with -strict, on a machine that does nothing else:
//
//	go test -strict -v ./...
//	go test -run TestScreenshots -screenshots DIR
package browsertest
