package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
	"golang.org/x/term"
)

// secretFlags has the two flags that name the file of a secret. Secrets themselves are never on the command line.
type secretFlags struct {
	keyFlag, passphraseFlag string // their names
	keyFile, passphraseFile string
}

// addTo declares the flags. what says what they do with the secret.
func (f *secretFlags) addTo(cmd *cobra.Command, keyFlag, passphraseFlag, what string) {
	f.keyFlag, f.passphraseFlag = keyFlag, passphraseFlag
	cmd.Flags().StringVar(&f.keyFile, keyFlag, "", what+" with the key in `KEYFILE`")
	cmd.Flags().StringVar(&f.passphraseFile, passphraseFlag, "", what+" with the passphrase in `FILE`")
}

// isGiven reports whether a flag names a secret.
func (f *secretFlags) isGiven() bool { return f.keyFile != "" || f.passphraseFile != "" }

// read returns the secret that a flag names. Two flags are a usageError.
func (f *secretFlags) read() (encrypted.Secret, error) {
	switch {
	case f.keyFile != "" && f.passphraseFile != "":
		return nil, usageError{fmt.Errorf("--%s and --%s exclude each other", f.keyFlag, f.passphraseFlag)}
	case f.keyFile != "":
		return trust.ReadKey(f.keyFile)
	}
	return trust.ReadPassphrase(f.passphraseFile)
}

// setSecret sets secret and from to what flags or the environment name, if they name one, unless it is set. It fails if flags name two, or
// a file cannot be read.
func (o *opener) setSecret() error {
	if o.secret != nil {
		return nil
	}
	var secret encrypted.Secret // nil of its type if it could not be read
	var err error
	if o.decrypt.isGiven() {
		o.from = o.decrypt.keyFile + o.decrypt.passphraseFile
		secret, err = o.decrypt.read()
	} else {
		secret, o.from, err = trust.EnvironmentSecret()
	}
	if err == nil {
		o.secret = secret
	}
	return err
}

// askPassphrase reads the passphrase of the model at path from the terminal, without an echo. It is loader.ErrKey if the
// model needs a key file, or there is no terminal.
func (o *opener) askPassphrase(path string, e *encrypted.Encryption) (encrypted.Secret, error) {
	stderr := o.stderr()
	if e.Argon2 == nil || !term.IsTerminal(int(os.Stdin.Fd())) || !terminal.IsTerminal(stderr) {
		return nil, fmt.Errorf("%s: %w: the model is encrypted, and no key was given (--decrypt KEYFILE, or --%s FILE)", path, loader.ErrKey, o.decrypt.passphraseFlag)
	}
	fmt.Fprintf(stderr, "passphrase of %s: ", report.Printable(path))
	text, err := term.ReadPassword(int(os.Stdin.Fd()))
	fmt.Fprintln(stderr)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	return trust.NewPassphrase(text)
}

// encryptionOf returns how m is encrypted, or nil.
func encryptionOf(m *loader.Model) *encrypted.Encryption {
	for _, f := range m.Files() {
		switch l := f.Layout.(type) {
		case *apr2.File:
			return l.Encryption
		case *manifest.File:
			return l.Encryption
		}
	}
	return nil
}
