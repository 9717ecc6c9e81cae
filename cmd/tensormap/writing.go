package main

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/glob"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
)

// writeOptions has the flags of the verbs that write a model: convert, upgrade, split and merge.
type writeOptions struct {
	opener
	format  formatFlag
	shards  byteSize
	jobs    jobs
	sign    string // file of a private key
	encrypt secretFlags
	doing   string // describes the work next to its progress

	source   layout.Format // the only format that may be read, or Unknown for any
	asStored bool          // the tensors keep their bytes, in other files: split and merge, which have none of the flags below
	align    choice
	order    choice
	dtype    choice
	keep     glob.Patterns
	compress choice
	metadata metadataFlag
	types    typeFlags
	imatrix  string

	all, plainF8           bool
	noSideFiles, noAliases bool
	dryRun, json           bool
}

// run writes the model args[0] as args[1], and reports on standard error what it did. With --dry-run it only shows the plan. It fails if
// flags contradict one another, if the output is a file that is read, and as prepare does.
func (v *writeOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	in, out := args[0], args[1]
	o, err := v.options(out)
	if err != nil {
		return err
	}
	for _, read := range append([]string{v.imatrix}, v.metadata.files...) {
		if err := checkDiffers(out, read); err != nil {
			return err
		}
	}
	if v.imatrix != "" {
		if o.Importance, err = convert.ReadImportance(v.imatrix); err != nil {
			return err
		}
	}
	if err := v.setTrust(o); err != nil {
		return err
	}
	m, err := v.open(ctx, in, toCopy)
	if err != nil {
		return err
	}
	defer m.Close()
	defer v.jobs.limit()() // back to all cores at the end
	if err := checkOutput(out, m); err != nil {
		return err
	}
	if err := v.prepare(ctx, s.Err, in, m, o); err != nil {
		return err
	}
	bar := terminal.NewProgress(s.Err, v.doing)
	begun := time.Now()
	o.Progress = bar.Update
	freeMemory() // what opening left, in gaps of memory that are too small for the plan
	plan, err := convert.NewPlan(ctx, m, out, o)
	if err == nil && v.dryRun {
		return dryRun(s, plan, v.json, o)
	}
	if err == nil {
		freeMemory() // what planning left
		err = plan.Write(ctx)
	}
	took := time.Since(begun)
	bar.Clear()
	if err != nil {
		return withAdvice(err, o)
	}
	reportWritten(s.Err, plan, v.shards.bytes, took)
	if o.Compress == convert.Fast || o.Compress == convert.High {
		reportCompressed(s.Err, plan)
	}
	reportDecisions(s.Err, plan)
	reportErrors(s.Err, plan.Tensors)
	reportLost(s.Err, out, plan.Tensors)
	if v.json {
		if err := writePlanJSON(s.Out, plan); err != nil {
			return err
		}
	}
	isSigned := func(f loader.FileInfo) bool { return slices.Contains(f.Layout.Index().Flags, apr2.Signed.String()) }
	if slices.ContainsFunc(m.Files(), isSigned) && o.Signer == nil {
		note(s.Err, "%s: signature not carried over", shownName(in))
	}
	if encryptionOf(m) != nil && o.Encrypter == nil {
		note(s.Err, "%s: encryption not carried over", shownName(in))
	}
	return nil
}

// prepare adds to o what files beside m say, which is the model at in. It warns on stderr of a shard, and of flags that match no tensor.
// It fails if m has another format than the verb reads, is one shard to be merged, or if --filter matches no tensor.
func (v *writeOptions) prepare(ctx context.Context, stderr io.Writer, in string, m *loader.Model, o *convert.Options) error {
	isShard := isLoneShard(m)
	switch f := m.Format(); {
	case v.source != layout.Unknown && f != v.source:
		return fmt.Errorf("%s: is %v, not %v; use convert", report.Printable(shownName(in)), f, v.source)
	case v.asStored && v.shards.bytes == 0 && isShard:
		return fmt.Errorf("%s: is one shard of a model; merge takes the manifest or index that leads to all", shownName(in))
	}
	if isShard {
		note(stderr, "warning: %s is one shard of a model; its manifest or index stands for all", m.Files()[0].Path)
	}
	if err := v.requireMatch(in, m); err != nil {
		return err
	}
	if err := v.addSideFiles(ctx, stderr, m, o); err != nil {
		return err
	}
	reportUnmatched(stderr, "keep", v.keep, m)
	for _, one := range v.types {
		reportUnmatched(stderr, "type", one.match, m)
	}
	return nil
}

// addTo declares the flags that all verbs have which write a model.
func (v *writeOptions) addTo(cmd *cobra.Command) {
	v.writes = true
	v.opener.addTo(cmd)
	v.encrypt.addTo(cmd, "encrypt", "passphrase-file", "encrypt an APR2 file")
	cmd.Flags().StringVar(&v.sign, "sign", "", "sign an APR2 file with this Ed25519 key, a PEM `FILE`")
	v.jobs.addTo(cmd)
}

// setTrust sets o.Signer and o.Encrypter to the key and the secret that flags name. Only APR2 files can be signed and encrypted: flags for
// another format are a usageError, as are two secrets. It fails if a key cannot be read, or if the key of --sign is no Ed25519 key.
func (v *writeOptions) setTrust(o *convert.Options) error {
	isAPR2 := o.Format == layout.APR2
	err := firstMisuse([]misuse{
		{v.sign != "" && !isAPR2, fmt.Sprintf("--sign: only APR2 files carry a signature, not %v; sign makes a bundle of any", o.Format)},
		{v.encrypt.isGiven() && !isAPR2, fmt.Sprintf("--encrypt and --passphrase-file: only APR2 files are encrypted, not %v", o.Format)},
	})
	if err == nil && v.sign != "" {
		var key crypto.Signer
		if key, err = trust.ReadPrivateKey(v.sign); err == nil {
			o.Signer, err = trust.NewSigner(key)
		}
		err = withPath(v.sign, err)
	}
	if err == nil && v.encrypt.isGiven() {
		var secret encrypted.Secret
		secret, err = v.encrypt.read()
		o.Encrypter = trust.NewEncrypter(secret) // of no use if the secret cannot be read
	}
	return err
}

// indexEnd is the suffix of the index of SafeTensors shards.
var indexEnd = formats.Suffix(layout.SafeTensors) + manifest.IndexSuffix

// formatFlag is --format, for new files whose names do not say what they are.
type formatFlag struct{ choice }

// writableFormats returns the formats that can be written.
func writableFormats() []layout.Format {
	return slices.DeleteFunc(slices.Clone(formats.Names()), func(f layout.Format) bool { return !convert.CanWrite(f) })
}

// addTo declares the flag.
func (f *formatFlag) addTo(cmd *cobra.Command) {
	for _, format := range writableFormats() {
		f.allowed = append(f.allowed, format.String())
	}
	f.choice.addTo(cmd, "format", "write this format, under a name whose suffix is of none")
}

// formatOf returns the format of a new file called out: by its suffix, or by --format if no format has that suffix. It is
// a usageError if neither says a format that can be written, or if they contradict each other.
func (f *formatFlag) formatOf(out string) (layout.Format, error) {
	if err := checkName(out); err != nil {
		return layout.Unknown, err
	}
	lower := strings.ToLower(out)
	if strings.HasSuffix(lower, indexEnd) {
		return layout.Unknown, usageError{fmt.Errorf("%s: an index has its name from OUT: give %s, and --shard-size", out, out[:len(out)-len(".index.json")])}
	}
	names := formats.Names()
	at := slices.IndexFunc(names, func(f layout.Format) bool { return formats.Suffix(f) == filepath.Ext(lower) }) // of the two that end in .apr, the first
	switch {
	case at < 0 && f.value == "":
		return layout.Unknown, usageError{fmt.Errorf("%s: the name does not say which format to write: %s; or give --format %s", cmp.Or(out, `""`), writableSuffixes(), f.Type())}
	case at < 0:
		return names[slices.IndexFunc(names, func(one layout.Format) bool { return one.String() == f.value })], nil
	case !convert.CanWrite(names[at]):
		return layout.Unknown, usageError{fmt.Errorf("%s: files of format %v are not written, only %s", out, names[at], writableSuffixes())}
	case f.value != "" && f.value != names[at].String():
		return layout.Unknown, usageError{fmt.Errorf("%s: is a name for %v, not for %s", out, names[at], f.value)}
	}
	return names[at], nil
}

// writableSuffixes returns a list for messages of the formats that can be written, each with its suffix.
func writableSuffixes() string {
	var list []string
	for _, f := range writableFormats() {
		list = append(list, fmt.Sprintf("%v (%s)", f, formats.Suffix(f)))
	}
	return strings.Join(list, ", ")
}

// byteSize is a flag that takes a number of bytes, such as 2GB.
type byteSize struct {
	bytes  uint64 // 0 if it was not given
	text   string // as it was given
	mayBe0 bool
}

func (b *byteSize) Type() string   { return "SIZE" }
func (b *byteSize) String() string { return b.text }

// Set parses a number of bytes. It fails for what is no size, for 0 unless that may be, and for less than 1 MB without a unit, which was
// forgotten.
func (b *byteSize) Set(s string) error {
	s = strings.TrimSpace(s)
	n, err := humanize.ParseBytes(s)
	if isZero := s == "0" && b.mayBe0; !isZero && (err != nil || n == 0) {
		return errors.New("must be a size, such as 2GB or 500MiB")
	}
	if n > 0 && n < humanize.MByte && strings.TrimRight(s, "0123456789., ") == "" {
		return fmt.Errorf("has no unit, as %[1]sMB and %[1]sGB have; bytes are %[1]sB", s)
	}
	b.bytes, b.text = n, s
	return nil
}

// addTo declares --shard-size.
func (b *byteSize) addTo(cmd *cobra.Command) {
	cmd.Flags().Var(b, "shard-size", "divide a larger model among files of at most this size, such as 2GB")
	complete(cmd, "shard-size", cobra.NoFileCompletions)
}
