package layout

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MarshalJSON writes the object with its keys in order. It writes floats that JSON cannot hold
// as the strings "NaN", "Infinity" and "-Infinity".
func (m Metadata) MarshalJSON() ([]byte, error) { return EncodeJSON(m) }

// EncodeJSON encodes v on one line, a value of metadata as [Metadata.MarshalJSON] does. It counts the
// text first and allocates it once.
func EncodeJSON(v any) ([]byte, error) {
	n, err := WriteJSON(nil, v)
	if err != nil {
		return nil, err
	}
	return AppendJSON(make([]byte, 0, n), v)
}

// AppendJSON appends to b what EncodeJSON returns.
func AppendJSON(b []byte, v any) ([]byte, error) {
	w := jsonWriter{text: b}
	err := w.value(v)
	return w.text, err
}

// WriteJSON writes what EncodeJSON returns, in pieces, and returns the number of its bytes. A nil dst
// takes none.
func WriteJSON(dst *bufio.Writer, v any) (n int, err error) {
	w := jsonWriter{counting: true}
	if dst != nil {
		w.dst = dst
	}
	err = w.value(v)
	return w.n, err
}

// jsonWriter appends values to a text, or counts its bytes and writes them to dst.
type jsonWriter struct {
	text     []byte
	counting bool
	n        int          // bytes counted
	dst      io.Writer    // or nil; it keeps its errors
	scratch  bytes.Buffer // what encoding/json has written
	encoder  *json.Encoder
}

// put takes text, which is w.text and a piece more. While counting, the next piece takes its place.
func (w *jsonWriter) put(text []byte) error {
	w.text = text
	if w.counting {
		w.n += len(text)
		if w.dst != nil {
			w.dst.Write(text)
		}
		w.text = text[:0]
	}
	return nil
}

func (w *jsonWriter) raw(s string) error { return w.put(append(w.text, s...)) }

func (w *jsonWriter) value(v any) error {
	switch v := v.(type) {
	case Metadata:
		return w.object(Object(v.All()))
	case Object:
		return w.object(v)
	case string:
		return w.string(v)
	case json.Number:
		return w.number(v)
	case JSONText:
		return w.textOf(v)
	case List:
		return w.list(v.String())
	case Blob:
		return w.blob(v)
	case bool:
		return w.raw(strconv.FormatBool(v))
	case float32:
		return w.float(float64(v), v)
	case float64:
		return w.float(v, v)
	case []any:
		return writeArray(w, v, w.value)
	case []uint8: // encoding/json would write base64
		return writeArray(w, v, func(n uint8) error { return w.uint(uint64(n)) })
	case []float32:
		return writeArray(w, v, func(f float32) error { return w.float(float64(f), f) })
	case []float64:
		return writeArray(w, v, func(f float64) error { return w.float(f, f) })
	case []string:
		return writeList(w, v, w.string)
	case []json.Number:
		return writeList(w, v, w.number)
	case []bool:
		return writeList(w, v, func(b bool) error { return w.raw(strconv.FormatBool(b)) })
	case []int8:
		return writeList(w, v, func(n int8) error { return w.int(int64(n)) })
	case []int16:
		return writeList(w, v, func(n int16) error { return w.int(int64(n)) })
	case []uint16:
		return writeList(w, v, func(n uint16) error { return w.uint(uint64(n)) })
	case []int32:
		return writeList(w, v, func(n int32) error { return w.int(int64(n)) })
	case []uint32:
		return writeList(w, v, func(n uint32) error { return w.uint(uint64(n)) })
	case []int64:
		return writeList(w, v, w.int)
	case []uint64:
		return writeList(w, v, w.uint)
	}
	return w.encode(v)
}

func (w *jsonWriter) object(o Object) error {
	w.raw("{")
	next := ""
	for key, value := range o {
		w.raw(next)
		next = ","
		if err := w.string(key); err != nil {
			return err
		}
		w.raw(":")
		if err := w.value(value); err != nil {
			return err
		}
	}
	return w.raw("}")
}

// list writes the valid JSON of an array: without white space, and strings as all others are written.
func (w *jsonWriter) list(text string) error {
	for text != "" {
		at := strings.IndexByte(text, '"')
		if at < 0 {
			at = len(text)
		}
		for plain := range strings.FieldsSeq(text[:at]) {
			for plain != "" {
				n := pieceOf(plain)
				w.raw(plain[:n])
				plain = plain[n:]
			}
		}
		if text = text[at:]; text == "" {
			break
		}
		n := endOfString(text)
		if err := w.quoted(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// endOfString returns the length of the string that text begins with.
func endOfString(text string) int {
	for i := 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// quoted writes a string of JSON.
func (w *jsonWriter) quoted(text string) error {
	s := text[1 : len(text)-1]
	if strings.IndexByte(s, '\\') >= 0 {
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return err
		}
	}
	return w.string(s)
}

func writeArray[T any](w *jsonWriter, list []T, write func(T) error) error {
	w.raw("[")
	for i, v := range list {
		if i > 0 {
			w.raw(",")
		}
		if err := write(v); err != nil {
			return err
		}
	}
	return w.raw("]")
}

// writeList writes a nil slice as null, as encoding/json does.
func writeList[T any](w *jsonWriter, list []T, write func(T) error) error {
	if list == nil {
		return w.raw("null")
	}
	return writeArray(w, list, write)
}

func (w *jsonWriter) int(n int64) error { return w.put(strconv.AppendInt(w.text, n, 10)) }

func (w *jsonWriter) uint(n uint64) error { return w.put(strconv.AppendUint(w.text, n, 10)) }

func (w *jsonWriter) float(f float64, v any) error {
	switch {
	case math.IsNaN(f):
		return w.raw(`"NaN"`)
	case math.IsInf(f, 1):
		return w.raw(`"Infinity"`)
	case math.IsInf(f, -1):
		return w.raw(`"-Infinity"`)
	case f == 0 && math.Signbit(f):
		return w.raw("-0.0") // -0 is an integer to many readers, which have one zero only
	}
	return w.encode(v)
}

// number writes digits itself. It leaves all else to encoding/json, which checks it.
func (w *jsonWriter) number(n json.Number) error {
	if len(n) == 0 || n[0] == '0' && len(n) > 1 {
		return w.encode(n)
	}
	for i := range len(n) {
		if n[i]-'0' > 9 {
			return w.encode(n)
		}
	}
	return w.raw(string(n))
}

func (w *jsonWriter) blob(b Blob) error {
	if b == nil {
		return w.raw("null")
	}
	w.raw(`"`)
	const most = 3 << 10 // a multiple of 3, which needs no padding
	for ; len(b) > most; b = b[most:] {
		w.put(base64.StdEncoding.AppendEncode(w.text, b[:most]))
	}
	w.put(base64.StdEncoding.AppendEncode(w.text, b))
	return w.raw(`"`)
}

func (w *jsonWriter) string(s string) error {
	w.raw(`"`)
	if err := w.contents(s); err != nil {
		return err
	}
	return w.raw(`"`)
}

// contents writes what stands between quotes: plain ASCII itself. It leaves the rest to encoding/json, in pieces: the
// escapes of a long text take six times its bytes.
func (w *jsonWriter) contents(s string) error {
	for s != "" {
		n := pieceOf(s)
		if PlainJSON(s[:n]) {
			w.raw(s[:n])
		} else if b, err := w.standard(s[:n]); err != nil {
			return err
		} else {
			w.put(append(w.text, b[1:len(b)-1]...))
		}
		s = s[n:]
	}
	return nil
}

// textOf writes the JSON of a value as a string.
func (w *jsonWriter) textOf(t JSONText) error {
	w.raw(`"`)
	q := quoting{to: w}
	inner := jsonWriter{counting: true, dst: &q}
	if err := cmp.Or(inner.value(t.Value), q.err); err != nil {
		return err
	}
	return w.raw(`"`)
}

// quoting writes what is written to it as the contents of a string.
type quoting struct {
	to   *jsonWriter
	text []byte // the beginning of a character
	err  error
}

func (q *quoting) Write(b []byte) (int, error) {
	if string(b) == `"` {
		return 1, q.to.raw(`\"`)
	}
	q.text = append(q.text, b...)
	n := len(q.text)
	for i := 1; i < min(utf8.UTFMax, n+1); i++ {
		if last := q.text[n-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				n -= i
			}
			break
		}
	}
	if err := q.to.contents(string(q.text[:n])); err != nil {
		q.err = err
	}
	q.text = append(q.text[:0], q.text[n:]...)
	return len(b), q.err
}

// pieceOf returns the length of the beginning of s that can be escaped by itself.
func pieceOf(s string) int {
	const most = 4 << 10
	if len(s) <= most {
		return len(s)
	}
	for n := most; n > most-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	return most // no character has so many bytes, so each of them is wrong
}

// PlainJSON reports whether s stands in JSON as it is, between quotes.
func PlainJSON(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (w *jsonWriter) encode(v any) error {
	b, err := w.standard(v)
	if err != nil {
		return err
	}
	return w.put(append(w.text, b...))
}

// standard returns what encoding/json writes, until the next call.
func (w *jsonWriter) standard(v any) ([]byte, error) {
	if w.encoder == nil {
		w.encoder = json.NewEncoder(&w.scratch)
		w.encoder.SetEscapeHTML(false) // which would only be harder to read
	}
	w.scratch.Reset()
	if err := w.encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("metadata value of type %T: %w", v, err)
	}
	return bytes.TrimSuffix(w.scratch.Bytes(), []byte("\n")), nil // Encode ends every value with one
}
