// Package flags names the bits of a header's flag field, and numbers that stand for a name.
package flags

import (
	"fmt"
	"math/bits"
	"strings"
)

// Names returns the names of the bits that are set, lowest bit first. names[i] belongs to bit i.
func Names(set uint32, names []string) []string {
	list := make([]string, 0, bits.OnesCount32(set))
	for i, name := range names {
		if set&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}

// Join joins Names by "|". Bits without a name follow in hexadecimal.
func Join(set uint32, names []string) string {
	list := Names(set, names)
	if unknown := set >> len(names) << len(names); unknown != 0 || set == 0 {
		list = append(list, fmt.Sprintf("%#x", unknown))
	}
	return strings.Join(list, "|")
}

// Constant returns names[c], or the number in parentheses behind the type's name, such as Code(40), if there is no such name.
func Constant(of string, names []string, c uint8) string {
	if int(c) >= len(names) || names[c] == "" {
		return fmt.Sprintf("%s(%d)", of, c)
	}
	return names[c]
}
