package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/glob"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
)

// opener is how verbs open the model that the user names: by a path or by an address.
type opener struct {
	trusting
	headers headers
	timeout timeout
	stderr  func() io.Writer // of the verb
}

func (o *opener) addTo(cmd *cobra.Command) {
	o.stderr = cmd.ErrOrStderr
	o.trusting.addTo(cmd)
	cmd.Flags().Var(&o.timeout, "timeout", "give up a server that makes no progress for `TIME`, such as 90s or 5m")
	cmd.Flags().Var(&o.headers, "header", "send `'NAME: VALUE'` to the server, or what the file @FILE has, one a line")
}

// open opens the model; close lets go of all that it has opened.
func (o *opener) open(ctx context.Context, name string) (m *loader.Model, close func(), err error) {
	return o.openWith(ctx, name, loader.Options{})
}

// openWith does what open does, with options for a model in files.
func (o *opener) openWith(ctx context.Context, name string, opts loader.Options) (m *loader.Model, close func(), err error) {
	if err := o.trusting.apply(&opts); err != nil {
		return nil, nil, err
	}
	if isAddress(name) {
		return o.openAddress(ctx, name, &opts)
	}
	switch {
	case name == "-":
		return nil, nil, usageError{errors.New("-: models are not read from standard input; a file of this name is ./-")}
	case len(o.headers) > 0:
		return nil, nil, usageError{errors.New("--header is for http and https addresses")}
	case o.timeout != 0:
		return nil, nil, usageError{errors.New("--timeout is for http and https addresses")}
	}
	m, err = loader.Open(name, &opts)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(name, "://"):
		return nil, nil, fmt.Errorf("%w; addresses begin with http:// or https://", err)
	case err != nil:
		return nil, nil, err
	}
	return m, func() { m.Close() }, nil
}

// openToCopy opens a model to read all of it once, through buffers. Every page read through a
// mapping would count as memory of this process until the model is closed.
func (o *opener) openToCopy(ctx context.Context, name string) (m *loader.Model, close func(), err error) {
	return o.openWith(ctx, name, loader.Options{NoMap: true})
}

func (o *opener) openAddress(ctx context.Context, address string, opts *loader.Options) (*loader.Model, func(), error) {
	header, err := o.headers.parse()
	if err != nil {
		return nil, nil, err
	}
	r := remote{waiting: terminal.NewWaiting(o.stderr(), hostOf(address), o.timeout.duration())}
	err = r.waiting.During(func() (err error) {
		r.Reader, err = httprange.Open(ctx, address, &httprange.Options{Header: header, Timeout: o.timeout.duration()})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	r.waiting.Add(r.Reader)
	r.noteVersions = noteUnversioned(o.stderr())
	r.noteVersions(r.Reader)
	m, err := loader.OpenReaderAt(ctx, r, r.Size(), opts)
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return m, func() {
		m.Close()
		r.Close()
	}, nil
}

func isAddress(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// called returns the file's name for messages: an address may hold secrets.
func called(name string) string {
	if isAddress(name) {
		return httprange.NameOf(name)
	}
	return name
}

// hostOf returns the host of an address, without user and password, which may be secrets.
func hostOf(address string) string {
	_, rest, _ := strings.Cut(httprange.NameOf(address), "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// remote is a reader whose reads are watched.
type remote struct {
	*httprange.Reader
	waiting *terminal.Waiting

	noteVersions func(*httprange.Reader)
}

// noteUnversioned returns a function that says on stderr, once, if a file's changes would go
// unnoticed.
func noteUnversioned(stderr io.Writer) func(*httprange.Reader) {
	var once sync.Once
	return func(r *httprange.Reader) {
		if r.Validator() == httprange.NoValidator {
			once.Do(func() {
				fmt.Fprintf(stderr, "warning: %s: neither ETag nor Last-Modified: if the file changes meanwhile, nobody will tell\n", terminal.Printable(r.Name()))
			})
		}
	}
}

func (r remote) ReadAtContext(ctx context.Context, p []byte, off int64) (n int, err error) {
	err = r.waiting.During(func() (err error) {
		n, err = r.Reader.ReadAtContext(ctx, p, off)
		return err
	})
	return n, err
}

func (r remote) ReadVector(ctx context.Context, bufs [][]byte, off int64) error {
	return r.waiting.During(func() error { return r.Reader.ReadVector(ctx, bufs, off) })
}

func (r remote) OpenSibling(ctx context.Context, name string) (reader io.ReaderAt, size int64, err error) {
	err = r.waiting.During(func() (err error) {
		reader, size, err = r.Reader.OpenSibling(ctx, name)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	sibling := reader.(*httprange.Reader)
	r.waiting.Add(sibling)
	r.noteVersions(sibling)
	return remote{sibling, r.waiting, r.noteVersions}, size, nil
}

// headers are lines to send with requests. They may be secrets: no message repeats them.
type headers []string

func (h *headers) String() string { return "" }
func (h *headers) Type() string   { return "header" }

// Set leaves it to parse to complain, which does not quote as a flag's error does.
func (h *headers) Set(line string) error {
	*h = append(*h, line)
	return nil
}

func (h headers) parse() (http.Header, error) {
	header := make(http.Header)
	for _, line := range h {
		lines := []string{line}
		if path, ok := strings.CutPrefix(line, "@"); ok {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			lines = strings.Split(strings.TrimSpace(string(text)), "\n")
		}
		for _, line := range lines {
			name, value, ok := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			if !ok || !isToken(name) || strings.ContainsFunc(value, isControl) {
				return nil, usageError{fmt.Errorf("--header must be 'NAME: VALUE', or @FILE with such lines")}
			}
			header.Add(name, value)
		}
	}
	return header, nil
}

// isToken reports whether s may be the name of a header (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letter := 'a' <= r|0x20 && r|0x20 <= 'z'
		return !letter && !('0' <= r && r <= '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// matched returns an error if there is a pattern and no tensor of the models matches it.
func matched(g *glob.Pattern, path string, models ...*loader.Model) error {
	if g.Pattern == "" {
		return nil
	}
	for _, m := range models {
		for t := range m.Tensors() {
			if g.Match(t.Name()) {
				return nil
			}
		}
	}
	return fmt.Errorf("%s: no tensor matches %q", called(path), g.Pattern)
}

// timeout is a flag: how long to wait for a server that makes no progress. The zero value is
// the default.
type timeout time.Duration

const defaultTimeout = 30 * time.Second

func (t *timeout) String() string { return t.duration().String() }

func (t *timeout) Type() string { return "time" }

// Set takes what time.ParseDuration does, and a bare number as seconds.
func (t *timeout) Set(s string) error {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		s += "s"
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return errors.New("must be a time such as 30s or 5m")
	}
	*t = timeout(d)
	return nil
}

func (t timeout) duration() time.Duration {
	if t == 0 {
		return defaultTimeout
	}
	return time.Duration(t)
}
