package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
	"golang.org/x/term"
)

// decryptFlags has the flags that name the secret of an encrypted model. Secrets themselves are never on the command
// line.
type decryptFlags struct {
	keyFile        string
	passphraseFile string
	// headOnly is set for verbs that can do without the tensors' contents.
	headOnly bool
	// either is set for verbs of two models: one may not be encrypted.
	either bool

	passphraseFlag string
	secret         encrypted.Secret // nil before setSecret, or if no secret is named
	from           string           // the file or variable that it was read from
}

// addTo declares the flags. If the verb writes a model, --passphrase-file is that of the new model, and the flag for what
// is read has a longer name.
func (u *decryptFlags) addTo(cmd *cobra.Command, writes bool) {
	u.passphraseFlag = "passphrase-file"
	if writes {
		u.passphraseFlag = "decrypt-passphrase-file"
	}
	cmd.Flags().StringVar(&u.keyFile, "decrypt", "", "read an encrypted model with the key in `KEYFILE`")
	cmd.Flags().StringVar(&u.passphraseFile, u.passphraseFlag, "", "read an encrypted model with the passphrase in `FILE`")
}

// setSecret sets secret and from to what flags or the environment name, unless they are set. If nothing names a secret, it
// stays nil. It fails if flags name two, or a file cannot be read.
func (u *decryptFlags) setSecret() (err error) {
	switch {
	case u.secret != nil:
		return nil
	case u.keyFile != "" && u.passphraseFile != "":
		return usageError{fmt.Errorf("--decrypt and --%s exclude each other", u.passphraseFlag)}
	}
	if u.keyFile != "" || u.passphraseFile != "" {
		u.secret, u.from, err = readSecret(u.keyFile, u.passphraseFile)
		return err
	}
	u.secret, u.from, err = trust.EnvironmentSecret()
	return err
}

// readSecret reads the file called key or, if that is "", the file called passphrase. from is the name of the file.
func readSecret(key, passphrase string) (s encrypted.Secret, from string, err error) {
	if key != "" {
		s, err = trust.ReadKey(key)
		return s, key, err
	}
	s, err = trust.ReadPassphrase(passphrase)
	return s, passphrase, err
}

// openUnlocked opens a model by calling open with opts and the secret, and without the secret if there is none. If the model
// is encrypted then, and the verb needs the tensors' contents, openUnlocked asks for a passphrase at the terminal and calls
// open again. Of two models either may be unencrypted: open is called without the secret first.
func (u *decryptFlags) openUnlocked(stderr io.Writer, opts loader.Options, open func(opts *loader.Options) (*loader.Model, error)) (*loader.Model, error) {
	if err := u.setSecret(); err != nil {
		return nil, err
	}
	if u.secret == nil || u.either {
		plain := opts
		m, err := open(&plain)
		if err != nil {
			return nil, err
		}
		e := encryptionOf(m)
		if e == nil || u.secret == nil && u.headOnly {
			return m, nil
		}
		m.Close()
		if u.secret == nil {
			u.secret, err = u.askPassphrase(stderr, m.Path(), e)
		}
		if err != nil {
			return nil, err
		}
	}
	opts.Key = trust.Always(u.secret)
	return open(&opts)
}

// askPassphrase reads the passphrase of the model at path from the terminal, without an echo. It is loader.ErrKey if the
// model needs a key file, or there is no terminal.
func (u *decryptFlags) askPassphrase(stderr io.Writer, path string, e *encrypted.Encryption) (encrypted.Secret, error) {
	if e.Argon2 == nil || !term.IsTerminal(int(os.Stdin.Fd())) || !terminal.IsTerminal(stderr) {
		return nil, fmt.Errorf("%s: %w: the model is encrypted, and no key was given (--decrypt KEYFILE, or --%s FILE)", path, loader.ErrKey, u.passphraseFlag)
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

// encryptFlags has the flags that name the secret of a new model.
type encryptFlags struct{ keyFile, passphraseFile string }

// addTo declares the flags.
func (v *encryptFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&v.keyFile, "encrypt", "", "encrypt an APR2 file with the key in `KEYFILE`")
	cmd.Flags().StringVar(&v.passphraseFile, "passphrase-file", "", "encrypt an APR2 file with the passphrase in `FILE`")
}

// apply sets o.Encrypter to the secret that a flag names, if one was given. Only APR2 files can be encrypted: another format
// is a usageError, as are two secrets.
func (v *encryptFlags) apply(o *convert.Options) error {
	switch {
	case v.keyFile == "" && v.passphraseFile == "":
		return nil
	case v.keyFile != "" && v.passphraseFile != "":
		return usageError{errors.New("--encrypt and --passphrase-file exclude each other")}
	case o.Format != layout.APR2:
		return usageError{fmt.Errorf("--encrypt and --passphrase-file: only APR2 files are encrypted, not %v", o.Format)}
	}
	secret, _, err := readSecret(v.keyFile, v.passphraseFile)
	if err != nil {
		return err
	}
	o.Encrypter = trust.NewEncrypter(secret)
	return nil
}
