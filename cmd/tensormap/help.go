package main

//go:generate go test . -run TestReference -update

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
)

// helpTexts has a text for each verb, named after it: examples, then what the verb does.
//
//go:embed help/*.txt
var helpTexts embed.FS

// usage makes one line of cobra's two for a command with verbs, which it calls commands.
var usage = strings.NewReplacer("{{if .Runnable}}\n  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}\n  {{.CommandPath}} [command]{{end}}",
	"\n  {{if .HasAvailableSubCommands}}{{.CommandPath}} VERB …{{else}}{{.UseLine}}{{end}}",
	"Available Commands:", "Verbs:", "[command]", "VERB", "about a command.", "about a verb.")

// setHelp sets the help of cmd and of its verbs. Verbs that cobra adds have no text here, and keep theirs.
func setHelp(cmd *cobra.Command) {
	text, err := helpTexts.ReadFile("help/" + strings.ReplaceAll(verbPath(cmd), " ", "-") + ".txt")
	if err == nil {
		cmd.Long = strings.TrimRight(string(text), "\n")
	}
	for _, sub := range cmd.Commands() {
		setHelp(sub)
	}
}

// verbPath returns the name of a verb after that of its group, as "cache ls", and the program's for the root.
func verbPath(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}
