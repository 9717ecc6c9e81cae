// Command tensormap-keyless verifies a model that an identity has signed by Sigstore, without a server:
//
//	tensormap-keyless --signature model.sig --identity WHO --issuer URL --trusted-root trusted_root.json DIR|FILE
//
// The trusted root is what Sigstore's update framework distributes under this name. The command reads
// every file. Its status is 0 if all are the signed ones, 1 if not, 2 for wrong usage.
//
// To have a model verified as it is read, verify it once with this command, and sign it with a key of
// your own: tensormap sign DIR --key KEY.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/tensormap/tensormap/trust"
	"github.com/tensormap/tensormap/trust/keyless"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

// run verifies what args name, says on stderr what is wrong, and returns the exit status.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	var (
		f         = flag.NewFlagSet("tensormap-keyless", flag.ContinueOnError)
		signature = f.String("signature", "", "the bundle, a `FILE`")
		identity  = f.String("identity", "", "trust only what `WHO` has signed: an email address or the URL of a workflow")
		issuer    = f.String("issuer", "", "the `URL` of the OpenID Connect provider that knows the identity")
		trusted   = f.String("trusted-root", "", "Sigstore's trusted_root.json, a `FILE`")
		opts      trust.VerifyOptions
	)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprintln(stderr, "usage: tensormap-keyless --signature FILE --identity WHO --issuer URL --trusted-root FILE DIR|FILE")
		f.PrintDefaults()
	}
	f.BoolVar(&opts.IgnoreUnsigned, "ignore-unsigned-files", false, "let files pass that the bundle does not list")
	f.Func("ignore-paths", "let `PATH`, which lies in DIR, and all below it pass; may be repeated", func(path string) error {
		opts.Ignore = append(opts.Ignore, path)
		return nil
	})
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case f.NArg() != 1 || *signature == "" || *identity == "" || *issuer == "" || *trusted == "":
		f.Usage()
		return 2
	}
	opts.Bundle = *signature
	if err := verify(ctx, f.Arg(0), *trusted, keyless.Signer{Identity: *identity, Issuer: *issuer}, &opts); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// verify compares the files of a model with its bundle, after it has verified the signer.
func verify(ctx context.Context, model, trusted string, signer keyless.Signer, opts *trust.VerifyOptions) error {
	text, err := os.ReadFile(opts.Bundle)
	if err != nil {
		return err
	}
	root, err := os.ReadFile(trusted)
	if err != nil {
		return err
	}
	if opts.Ignore, err = trust.Within(model, opts.Ignore...); err != nil {
		return err
	}
	s, err := keyless.Verify(text, root, signer)
	if err != nil {
		return fmt.Errorf("%s: %w", opts.Bundle, err)
	}
	return s.Verify(ctx, model, opts)
}
