package report

import (
	"cmp"
	"strings"
)

// CompareNatural compares names byte by byte, but numbers in them by value: blk.2 comes before blk.10. It is 0 for equal names only.
func CompareNatural(a, b string) int {
	whole := strings.Compare(a, b)
	for a != "" && b != "" {
		i, j, c := digits(a), digits(b), cmp.Compare(a[0], b[0])
		if i > 0 && j > 0 {
			x, y := strings.TrimLeft(a[:i], "0"), strings.TrimLeft(b[:j], "0")
			c = cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
		} else {
			i, j = 1, 1
		}
		if c != 0 {
			return c
		}
		a, b = a[i:], b[j:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), whole)
}

// digits returns how many digits s begins with.
func digits(s string) (n int) {
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}
