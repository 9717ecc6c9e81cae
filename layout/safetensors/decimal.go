package safetensors

// decimal is the value of the digits at the start of b, and how many there are. Past 19
// digits the value is meaningless.
func decimal(b []byte) (v uint64, digits int) {
	for i, c := range b {
		c -= '0'
		if c > 9 {
			return v, i
		}
		v = v*10 + uint64(c)
	}
	return v, len(b)
}
