package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/glob"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
	"github.com/tensormap/tensormap/trust"
	"golang.org/x/net/http/httpguts"
)

// opener has the flags with which verbs open the model at a path or an address.
type opener struct {
	trustFlags
	writes   bool // the verb writes a model, which has a secret of its own
	copies   bool // the verb copies files as they are, encrypted or not
	headOnly bool // the verb can do without the tensors' contents

	decrypt secretFlags
	secret  encrypted.Secret // nil before setSecret, or if no secret is named
	from    string           // the file or variable that it was read from

	headers []string      // lines to send with requests; they may be secrets: no message repeats them
	timeout time.Duration // 0 for the default
	noCache bool
	filter  glob.Pattern     // of tensors; if a verb has the flag, a model without such is an error
	ignore  glob.Patterns    // parts beside quantized weights
	maxHead byteSize         // limit of a header; 0 for the default
	both    []string         // the names of the two models that openTwo opens; one may be encrypted
	stderr  func() io.Writer // where the verb writes notes
}

// addTo declares the flags.
func (o *opener) addTo(cmd *cobra.Command) {
	o.stderr = cmd.ErrOrStderr
	o.trustFlags.addTo(cmd)
	if !o.copies {
		passphraseFlag := "passphrase-file"
		if o.writes { // it is the path of the new model
			passphraseFlag = "decrypt-passphrase-file"
		}
		o.decrypt.addTo(cmd, "decrypt", passphraseFlag, "read an encrypted model")
		cmd.Flags().Func("ignore-part", "decode quantized weights without the tensors beside them that match `GLOB`, although they may change values", o.ignore.Set)
	}
	cmd.Flags().Func("timeout", "give up a server that makes no progress for `TIME`, such as 90s or 5m (default 30s)", o.setTimeout)
	cmd.Flags().StringArrayVar(&o.headers, "header", nil, "send `'NAME: VALUE'` to the server, or what the file @FILE has, one a line")
	cmd.Flags().BoolVar(&o.noCache, "no-cache", false, "keep nothing of what a server sends")
	cmd.Flags().Var(&o.maxHead, "max-header", "open files whose header or index has up to `SIZE`, in place of 100MB")
	complete(cmd, "max-header", cobra.NoFileCompletions)
}

// addFilter declares --filter.
func (o *opener) addFilter(cmd *cobra.Command) {
	cmd.Flags().Func("filter", "only tensors whose name matches `GLOB` (see tensormap help inspect)", o.filter.Set)
	complete(cmd, "filter", completeFilter)
}

// apply sets the limits and the trust of opts to what flags say. It fails as trustFlags.apply does.
func (o *opener) apply(opts *loader.Options) error {
	if o.maxHead.bytes > 0 {
		opts.Limits = &layout.Limits{HeaderBytes: o.maxHead.bytes}
	}
	return o.trustFlags.apply(opts)
}

// toCopy has the options for reading all of a model once, through buffers. Every page read through a mapping would count as
// memory of this process until the model is closed.
var toCopy = loader.Options{NoMap: true}

// open opens the model at a path or an address with these options, in which it sets limits, trust, parts to ignore and the secret. If the
// model is encrypted, the verb needs the tensors' contents and no secret was named, it asks for a passphrase at the terminal.
func (o *opener) open(ctx context.Context, name string, opts loader.Options) (*loader.Model, error) {
	if err := o.apply(&opts); err != nil {
		return nil, err
	}
	if err := o.setSecret(); err != nil {
		return nil, err
	}
	if len(o.ignore) > 0 {
		opts.IgnorePart = o.ignore.Match
	}
	if o.secret != nil && o.both == nil {
		opts.Key = trust.Always(o.secret)
	}
	m, err := o.openOnce(ctx, name, opts)
	if err != nil || opts.Key != nil {
		return m, err
	}
	e := encryptionOf(m)
	if e == nil || o.secret == nil && o.headOnly {
		return m, nil
	}
	m.Close()
	if o.secret == nil {
		secret, err := o.askPassphrase(m.Path(), e)
		if err != nil {
			return nil, err
		}
		o.secret = secret
	}
	opts.Key = trust.Always(o.secret)
	return o.openOnce(ctx, name, opts)
}

// openOnce opens the model at a path or an address with these options.
func (o *opener) openOnce(ctx context.Context, name string, opts loader.Options) (*loader.Model, error) {
	if isAddress(name) {
		ro, err := o.remote(&opts)
		if err != nil {
			return nil, err
		}
		return remote.Open(ctx, name, ro)
	}
	none := !slices.ContainsFunc(o.both, isAddress)
	err := firstMisuse([]misuse{
		{name == "-", "-: models are not read from standard input; a file of this name is ./-"},
		{none && len(o.headers) > 0, "--header is for addresses"},
		{none && o.timeout != 0, "--timeout is for addresses"},
		{none && o.noCache, "--no-cache is for addresses"},
	})
	if err != nil {
		return nil, err
	}
	m, err := loader.Open(name, &opts)
	if errors.Is(err, fs.ErrNotExist) {
		err = withAddressHint(err, name)
	}
	return m, err
}

// openSelected does what open does, and fails if --filter matches no tensor.
func (o *opener) openSelected(ctx context.Context, name string, opts loader.Options) (*loader.Model, error) {
	m, err := o.open(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	if err := o.requireMatch(name, m); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// openTwo opens two models to compare them. It fails if --filter matches no tensor of either, or if there is a secret and neither is
// encrypted.
func (o *opener) openTwo(ctx context.Context, pathA, pathB string) (a, b *loader.Model, err error) {
	o.both = []string{pathA, pathB}
	if a, err = o.open(ctx, pathA, loader.Options{}); err != nil {
		return nil, nil, err
	}
	if b, err = o.open(ctx, pathB, loader.Options{}); err != nil {
		a.Close()
		return nil, nil, err
	}
	if err = o.requireMatch(pathA, a, b); err == nil && o.secret != nil && encryptionOf(a) == nil && encryptionOf(b) == nil {
		err = fmt.Errorf("%s: %w: neither model is encrypted", o.from, loader.ErrKey)
	}
	if err != nil {
		a.Close()
		b.Close()
	}
	return a, b, err
}

// requireMatch returns an error if there is a --filter and no tensor of the models matches it. path is where one of the models lies.
func (o *opener) requireMatch(path string, models ...*loader.Model) error {
	if o.filter.Pattern == "" || slices.ContainsFunc(models, func(m *loader.Model) bool { return matchesAny(&o.filter, m) }) {
		return nil
	}
	return fmt.Errorf("%s: no tensor matches %q", shownName(path), o.filter.Pattern)
}

// remote returns the options for opening an address, with opts for the loader. It fails if --header is malformed.
func (o *opener) remote(opts *loader.Options) (*remote.Options, error) {
	header, err := o.header()
	if err != nil {
		return nil, err
	}
	var once sync.Once
	return &remote.Options{Loader: opts, NoCache: o.noCache, HTTP: &httprange.Options{
		Header:  header,
		Timeout: o.timeout,
		Silent:  terminal.Waiting(o.stderr()),
		Unversioned: func(name string) {
			once.Do(func() {
				note(o.stderr(), "warning: %s: neither ETag nor Last-Modified: if the file changes meanwhile, nobody will tell", name)
			})
		},
	}}, nil
}

// schemes are what addresses begin with.
var schemes = []string{"hf", "oci", "ollama", "s3", "https", "http", "file"}

// withAddressHint adds to err, which says that there is no file called name, the address that may be meant.
func withAddressHint(err error, name string) error {
	scheme, rest, ok := strings.Cut(name, ":")
	switch {
	case !ok && isRepository(name):
		return fmt.Errorf("%w; a model of the Hugging Face Hub is hf://%s", err, name)
	case !ok:
		return err
	case strings.HasPrefix(rest, "//"):
		return fmt.Errorf("%w; addresses begin with %s://", err, strings.Join(schemes, "://, "))
	case !slices.Contains(schemes, strings.ToLower(scheme)):
		return err
	case !strings.EqualFold(scheme, "file"): // which has a path that may begin with a slash
		rest = strings.TrimPrefix(rest, "/")
	}
	return fmt.Errorf("%w; an address has two slashes: %s", err, shownName(scheme+"://"+rest))
}

// isRepository reports whether name may be ORG/NAME of a repository of a hub: it looks so, and there is no folder ORG here.
func isRepository(name string) bool {
	org, rest, ok := strings.Cut(name, "/")
	special := func(r rune) bool {
		return !strings.ContainsRune("-._", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	if !ok || org == "" || rest == "" || org[0] == '.' || strings.ContainsFunc(org+rest, special) || slices.Contains(formats.Suffixes(), filepath.Ext(rest)) {
		return false
	}
	_, err := os.Stat(org)
	return errors.Is(err, fs.ErrNotExist)
}

// isAddress reports whether name begins with one of schemes, and is no path.
func isAddress(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	return ok && slices.Contains(schemes, strings.ToLower(scheme))
}

// shownName returns the name of a model for messages: a path as it is, an address without user, password and query.
func shownName(name string) string {
	if isAddress(name) {
		return httprange.NameOf(name)
	}
	return name
}

// header returns the lines of all --header, also the lines of files. It is a usageError if a line is malformed, and does not
// quote the line, which may be a secret: so the flag itself does not parse it.
func (o *opener) header() (http.Header, error) {
	header := make(http.Header)
	for _, line := range o.headers {
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
			if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return nil, usageError{fmt.Errorf("--header must be 'NAME: VALUE', or @FILE with such lines")}
			}
			header.Add(name, value)
		}
	}
	return header, nil
}

// matchesAny reports whether g matches the name of a tensor of m, or of several.
func matchesAny(g *glob.Pattern, m *loader.Model) bool {
	for t := range m.Tensors() {
		if g.Match(t.Name()) {
			return true
		}
	}
	return false
}

// setTimeout parses --timeout. It takes what time.ParseDuration does, and a bare number as seconds. It fails for times that are not positive.
func (o *opener) setTimeout(s string) error {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		s += "s"
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return errors.New("must be a time such as 30s or 5m")
	}
	o.timeout = d
	return nil
}
