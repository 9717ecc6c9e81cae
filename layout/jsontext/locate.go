package jsontext

import "math"

// Locate returns where in text the value starts that path leads to: keys (string) and positions
// in arrays (int). If path leads nowhere, it returns the start of the last value on the way. Parse
// has accepted the text, so its depth is bounded. It is read anew, which few values are worth.
func Locate(text string, path ...any) uint64 {
	s := Scanner{text: text, maxDepth: math.MaxUint64}
	s.Next()
	at := s.Offset()
	for _, step := range path {
		if !s.descend(step) {
			break
		}
		s.Next()
		at = s.Offset()
	}
	return at
}

// descend moves s into the object or array that comes next, to the value of the key or at the position that step is. It reports false if
// there is none.
func (s *Scanner) descend(step any) bool {
	switch i := 0; s.Next() {
	case '{':
		for s.Open('{', "an object"); s.More('}'); s.Skip() {
			if key, _ := s.Key(); step == any(key) {
				return true
			}
		}
	case '[':
		for s.Open('[', "an array"); s.More(']'); s.Skip() {
			if step == any(i) {
				return true
			}
			i++
		}
	}
	return false
}
