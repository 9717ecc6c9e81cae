package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/trust"
)

// keygenCommand returns the verb keygen.
func keygenCommand() *cobra.Command {
	typ := choice{value: trust.P256, allowed: trust.KeyTypes()}
	var out string
	cmd := verb("keygen -o KEY.pem [--type p256|p384|p521|ed25519]", "Make a pair of keys for signing", func(_ context.Context, s terminal.Streams, _ []string) error {
		if out == "" {
			return usageError{errors.New("missing -o: the file for the private key")}
		}
		key, err := trust.GenerateKey(typ.value)
		if err == nil {
			err = trust.WriteKey(out, key)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(s.Out, report.Printable(trust.PublicName(out)))
		return err
	})
	typ.addTo(cmd, "type", "the curve")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the private key to `FILE`")
	return cmd
}

type signOptions struct {
	key, certificate, out string
	chain                 []string
	ignore                []string
	links                 bool
	chunk                 byteSize
}

// signCommand returns the verb sign.
func signCommand() *cobra.Command {
	var o signOptions
	cmd := verb("sign DIR|FILE --key KEY.pem [-o BUNDLE]",
		"Sign a model, as OpenSSF Model Signing specifies",
		o.run, "DIR or FILE")
	cmd.Flags().StringVar(&o.key, "key", "", "sign with this private key, a PEM `FILE`")
	cmd.Flags().StringVar(&o.certificate, "signing-certificate", "", "put the key's certificate into the bundle, a PEM `FILE`")
	cmd.Flags().StringArrayVar(&o.chain, "certificate-chain", nil, "put further certificates into the bundle, a PEM `FILE`")
	cmd.Flags().StringArrayVar(&o.ignore, "ignore-paths", nil, "leave out `PATH`, which lies in DIR, and all below it")
	cmd.Flags().BoolVar(&o.links, "allow-symlinks", false, "follow symbolic links to files, and warn of links that lead out of DIR")
	cmd.Flags().Var(&o.chunk, "chunk-size", "digests for chunks of this `SIZE`, a power of two from 64KiB (default: 4MiB)")
	cmd.Flags().StringVarP(&o.out, "output", "o", "", "write the bundle to `FILE` (default: model.sig in DIR)")
	return cmd
}

// run signs the model args[0], a folder or a file, and writes the bundle to the file of -o, or to model.sig in the folder.
func (o *signOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	root := args[0]
	err := firstMisuse([]misuse{
		{o.key == "", "missing --key: the private key to sign with"},
		{len(o.chain) > 0 && o.certificate == "", "--certificate-chain needs --signing-certificate"},
		{isAddress(root), shownName(root) + ": only files of this machine are signed"},
	})
	if err != nil {
		return err
	}
	key, err := trust.ReadPrivateKey(o.key)
	if err != nil {
		return err
	}
	var chain []*x509.Certificate
	if o.certificate != "" {
		if chain, err = trust.ReadCertificates(append([]string{o.certificate}, o.chain...)...); err != nil {
			return err
		}
	}
	out := o.out
	if out == "" {
		dir := root
		if info, err := os.Stat(root); err == nil && !info.IsDir() {
			dir = filepath.Dir(root)
		}
		out = filepath.Join(dir, "model.sig")
	}
	ignored, err := trust.Within(root, o.ignore...)
	if err != nil {
		return usageError{fmt.Errorf("--ignore-paths %w", err)}
	}
	bar := terminal.NewProgress(s.Err, "signing")
	err = trust.Sign(ctx, root, out, key, &trust.SignOptions{Chain: chain, Ignore: ignored, AllowSymlinks: o.links, ChunkBytes: o.chunk.bytes, Progress: bar.Update,
		Warn: func(err error) { note(s.Err, "warning: %v", err) }})
	bar.Clear()
	if errors.Is(err, trust.ErrKey) {
		return withPath(cmp.Or(o.certificate, o.key), err)
	}
	if err == nil {
		note(s.Err, "%s: signed %s", out, root)
	}
	return err
}

// withPath returns err with path in front of its text, unless it names a path already. It returns nil if err is nil.
func withPath(path string, err error) error {
	if err == nil {
		return nil
	}
	if errors.As(err, new(*fs.PathError)) || strings.HasPrefix(err.Error(), path+":") {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
