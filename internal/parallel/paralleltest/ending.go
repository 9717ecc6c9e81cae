// Package paralleltest helps tests of callbacks that end as they should not.
package paralleltest

// Ending runs f in a goroutine and reports how it ends: by returning, by a panic or by runtime.Goexit.
func Ending(f func()) (panicked any, exited bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		exited = true
		defer func() {
			if panicked = recover(); panicked != nil {
				exited = false
			}
		}()
		f()
		exited = false
	}()
	<-done
	return panicked, exited
}
