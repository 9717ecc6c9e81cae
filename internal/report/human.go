package report

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Size formats n bytes with three digits, such as "86.7 MiB".
func Size(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	return humanize.IBytesN(n, 3)
}

// Grouped formats n, which is not negative, with its digits in groups: "22,713,216".
func Grouped[N int | uint64](n N) string {
	if uint64(n) > math.MaxInt64 {
		return humanize.BigComma(new(big.Int).SetUint64(uint64(n)))
	}
	return humanize.Comma(int64(n))
}

// Count formats n with three digits, as parameters of models are counted: "22.7M".
func Count(n uint64) string { return Scaled(n, "", "KMBT") }

// Scaled formats n with three digits and, from 1000 on, the first of units for thousands, the second for millions and so on, behind space.
func Scaled(n uint64, space, units string) string {
	f, unit := float64(n), 0
	for ; f >= 999.5 && unit < len(units); unit++ {
		f /= 1000
	}
	if unit == 0 {
		return strconv.FormatUint(n, 10)
	}
	return threeDigits(f) + space + units[unit-1:unit]
}

// threeDigits formats f with three digits. f is at least 0 and below 1000.
func threeDigits(f float64) string {
	switch {
	case f < 9.995:
		return fmt.Sprintf("%.2f", f)
	case f < 99.95:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}

// Duration formats d with three digits: "12.3 ms".
func Duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return threeDigits(float64(d)/float64(time.Millisecond)) + " ms"
	case d < 2*time.Minute:
		return threeDigits(d.Seconds()) + " s"
	}
	return d.Round(time.Second).String()
}

// Throughput says in what time and how fast n bytes went by: "86.7 MiB in 12.3 ms, 7.12 GiB/s".
func Throughput(n uint64, d time.Duration) string {
	return fmt.Sprintf("%s in %s, %s/s", Size(n), Duration(d), Size(uint64(float64(n)/max(d, 1).Seconds())))
}

// Counted returns n with a noun, in the plural unless n is 1.
func Counted[N int | uint64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Grouped(n) + " " + noun
}

// Ranges writes ascending numbers as text, with comma between them, and to between the first and last of three or more that follow each
// other: "0–3, 7, 8". Behind as many ranges as most it writes how many more numbers there are.
func Ranges(numbers []int, to, comma string, most int) string {
	var texts []string
	for i, end := 0, 0; i < len(numbers); i = end {
		if len(texts) == most {
			texts = append(texts, fmt.Sprintf("%d more", len(numbers)-i))
			break
		}
		text := strconv.Itoa(numbers[i])
		for end = i + 1; end < len(numbers) && numbers[end] == numbers[end-1]+1; end++ {
		}
		if end-i > 2 {
			text += to + strconv.Itoa(numbers[end-1])
		} else {
			end = i + 1
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, comma)
}
