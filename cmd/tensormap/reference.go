package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

//go:generate go run . reference -o ../../docs/cli.md

// referenceCommand writes docs/cli.md. It is there for go generate, and no help mentions it.
func referenceCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:    "reference [-o OUT]",
		Short:  "Write the reference of all verbs as Markdown",
		Args:   operands(),
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write := func(w io.Writer) error {
				_, err := w.Write(reference(cmd.Root()))
				return err
			}
			if out == "" {
				return write(cmd.OutOrStdout())
			}
			return writeFile(out, write)
		},
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "write to the file `OUT`")
	return cmd
}

// reference returns the help of every verb as Markdown.
func reference(root *cobra.Command) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n", root.Name())
	fmt.Fprintf(&b, "The text of `%[1]s help VERB` for all verbs; `go generate ./cmd/%[1]s` writes this page.\n\n", root.Name())
	writeText(&b, root.Long)
	b.WriteString("| verb | does |\n| --- | --- |\n")
	verbs := documented(root)
	for _, cmd := range verbs {
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", verbPath(cmd), strings.ReplaceAll(verbPath(cmd), " ", "-"), escape(cmd.Short))
	}
	b.WriteString("\nFlags of every verb:\n\n")
	writeCode(&b, root.PersistentFlags().FlagUsages())
	for _, cmd := range verbs {
		fmt.Fprintf(&b, "## %s\n\n", verbPath(cmd))
		writeCode(&b, cmd.UseLine())
		writeText(&b, cmd.Long)
		if flags := cmd.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
			writeCode(&b, flags.FlagUsages())
		}
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

// verbPath returns the name of a verb, after that of its group.
func verbPath(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// documented returns the verbs of this program. Those that cobra adds document themselves.
func documented(root *cobra.Command) (verbs []*cobra.Command) {
	for _, cmd := range root.Commands() {
		switch {
		case cmd.IsAvailableCommand() && cmd.HasSubCommands() && cmd.Name() != "completion":
			verbs = append(verbs, documented(cmd)...)
		case cmd.IsAvailableCommand() && !cmd.HasSubCommands() && cmd.Name() != "help":
			cmd.InitDefaultHelpFlag()
			verbs = append(verbs, cmd)
		}
	}
	return verbs
}

// writeText writes help as Markdown: what is indented there is code here.
func writeText(b *bytes.Buffer, text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			writeCode(b, paragraph)
			continue
		}
		b.WriteString(escape(paragraph) + "\n\n")
	}
}

func writeCode(b *bytes.Buffer, code string) {
	lines := strings.Split(strings.Trim(code, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.TrimPrefix(line, "  "), " ")
	}
	b.WriteString("```text\n" + strings.Join(lines, "\n") + "\n```\n\n")
}

// escape keeps Markdown from seeing markup in plain text.
var escape = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "`", "\\`", "|", `\|`).Replace
