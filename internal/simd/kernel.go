// Package simd has what the packages with kernels in assembly share: which instructions the processor has,
// how many elements a call takes, how levels lie over each other, and how goroutines share a large buffer.
package simd

// MaxCall bounds the elements that one call of a kernel takes, because the runtime cannot preempt assembly. It thereby
// bounds the time for which a kernel keeps the garbage collector waiting. It is a multiple of every block and usable
// step.
const MaxCall = 1 << 18

// WholeSteps returns the largest multiple of step that is at most n. A step of 0 means 1.
func WholeSteps(n, step int) int {
	if step <= 1 {
		return n
	}
	return n - n%step
}

// Replace replaces each of kernels by the kernel of another level, if the level has one: if exists is true for it.
func Replace[K any](kernels, by []K, exists func(K) bool) {
	for i, k := range by {
		if exists(k) {
			kernels[i] = k
		}
	}
}
