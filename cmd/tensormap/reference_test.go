package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// update is for go generate.
var update = flag.Bool("update", false, "write docs/cli.md")

func TestReference(t *testing.T) {
	const page = "../../docs/cli.md"
	root := rootCommand(io.Discard, io.Discard)
	new(profiles).addFlags(root)
	want := reference(root)
	if *update {
		if err := os.WriteFile(page, want, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Equal(text, want) {
		t.Errorf("docs/cli.md is not what go generate ./cmd/tensormap writes (%v)", err)
	}
	for _, verb := range []string{"inspect", "verify", "dump", "convert"} {
		if !bytes.Contains(want, []byte("\n## "+verb+"\n")) {
			t.Errorf("%s is missing", verb)
		}
	}
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
