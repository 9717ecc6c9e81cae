// Command oms_adapter lets the conformance kit for OpenSSF Model Signing
// (github.com/sampras343/model-signing-conformance) run against package trust. It speaks the kit's
// command line. Only its exit status counts. Sigstore's bundles are verified by the command
// tensormap-keyless of the module trust/keyless, if KEYLESS has its path, with the public instance's root.
//
//	go build -o adapter ./testdata/outside/oms_adapter
//	go -C trust/keyless build -o $PWD/tensormap-keyless ./cmd/tensormap-keyless
//	TRUSTED_ROOT=$PWD/testdata/trust/sigstore/trusted_root.json KEYLESS=$PWD/tensormap-keyless pytest test/ --entrypoint=$PWD/adapter
package main

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"

	"github.com/tensormap/tensormap/trust"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) < 2 {
		return errors.New("sign-model or verify-model")
	}
	var chain, ignored []string
	f := flag.NewFlagSet(os.Args[1], flag.ContinueOnError)
	method, model := f.String("method", "", ""), f.String("model-path", "", "")
	output, bundle := f.String("output-bundle", "", ""), f.String("bundle", "", "")
	private, public, cert := f.String("private-key", "", ""), f.String("public-key", "", ""), f.String("signing-cert", "", "")
	identity, issuer := f.String("identity", "", ""), f.String("identity-provider", "", "")
	unsigned := f.Bool("ignore-unsigned-files", false, "")
	for name, list := range map[string]*[]string{"cert-chain": &chain, "ignore-paths": &ignored} {
		f.Func(name, "", func(path string) error {
			*list = append(*list, path)
			return nil
		})
	}
	if err := f.Parse(os.Args[2:]); err != nil {
		return err
	}
	ctx := context.Background()
	switch {
	case *method == "sigstore" && os.Args[1] == "verify-model" && os.Getenv("KEYLESS") != "":
		args := []string{"--signature", *bundle, "--identity", *identity, "--issuer", *issuer, "--trusted-root", os.Getenv("TRUSTED_ROOT"), fmt.Sprintf("--ignore-unsigned-files=%t", *unsigned)}
		for _, p := range ignored {
			args = append(args, "--ignore-paths", p)
		}
		cmd := exec.Command(os.Getenv("KEYLESS"), append(args, *model)...)
		cmd.Stderr = os.Stderr
		return cmd.Run()
	case *method != "key" && *method != "certificate":
		return fmt.Errorf("method %q", *method)
	}
	names, err := trust.Within(*model, ignored...)
	if err != nil {
		return err
	}
	if os.Args[1] == "sign-model" {
		text, err := os.ReadFile(*private)
		if err != nil {
			return err
		}
		key, err := trust.ParsePrivateKey(text)
		if err != nil {
			return err
		}
		var certificates []*x509.Certificate
		if *method == "certificate" {
			if certificates, err = trust.ReadCertificates(append([]string{*cert}, chain...)...); err != nil {
				return err
			}
		}
		return trust.Sign(ctx, *model, *output, key, &trust.SignOptions{Chain: certificates, Ignore: names})
	}
	text, err := os.ReadFile(*bundle)
	if err != nil {
		return err
	}
	b, err := trust.ParseBundle(text)
	if err != nil {
		return err
	}
	var s *trust.Statement
	if *method == "key" {
		var key crypto.PublicKey
		if key, err = trust.ReadPublicKey(*public); err == nil {
			s, err = b.VerifyKey(key)
		}
	} else {
		var roots []*x509.Certificate
		if roots, err = trust.ReadCertificates(chain...); err == nil {
			s, err = b.VerifyCertificate(&trust.CertificateOptions{Roots: roots})
		}
	}
	if err != nil {
		return err
	}
	return s.Verify(ctx, *model, &trust.VerifyOptions{Bundle: *bundle, Ignore: names, IgnoreUnsigned: *unsigned})
}
