package main

import (
	"context"
	"errors"
	"fmt"

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
