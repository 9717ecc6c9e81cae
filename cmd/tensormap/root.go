package main

//go:generate go test . -run TestReference -update

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/nearest"
)

// Exit statuses. Other programs rely on them.
const (
	exitDone   = 0
	exitFailed = 1 // the file or the operation
	exitUsage  = 2
)

// run runs the whole command within the process. args follow the program's name.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var prof profiles
	started := false
	out := &terminal.Results{W: stdout}
	root := rootCommand(out, stderr)
	prof.addFlags(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := refuseEmpty(cmd.Flags()); err != nil {
			return err
		}
		started = true
		return prof.start()
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	err = cmp.Or(err, prof.stop())
	if err != nil && !started && out.Err == nil {
		err = usageError{err} // cobra refused the command line
	}
	err = cmp.Or(err, out.Err) // which cobra does not look at
	return exitStatus(cmd, err, stderr)
}

// refuseEmpty returns an error if a flag was given nothing, as --key "$KEY" is where KEY is not set. To go on
// without it would trust anybody, or leave weights unencrypted.
func refuseEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		list, ok := f.Value.(pflag.SliceValue)
		if ok && slices.Contains(list.GetSlice(), "") || f.Value.Type() == "string" && f.Value.String() == "" { // other types say so
			takes, _ := pflag.UnquoteUsage(f)
			err = cmp.Or(err, fmt.Errorf("--%s is empty: it takes %s", f.Name, takes))
		}
	})
	return err
}

// rootCommand returns the command with all verbs.
func rootCommand(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "tensormap VERB …",
		Short:         "Inspect, verify, dump and convert model weight files",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,

		DisableFlagsInUseLine: true,
	}
	root.SetOut(stdout) // before cobra hands it on to its completion commands
	root.SetErr(stderr)
	root.SetVersionTemplate("tensormap {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(inspectCommand(), verifyCommand(), dumpCommand(), mapCommand(), convertCommand(), upgradeCommand())
	root.AddCommand(splitCommand(), mergeCommand(), statsCommand(), hashCommand(), diffCommand(), exploreCommand())
	root.AddCommand(keygenCommand(), signCommand(), pullCommand(), cacheCommand())
	root.SetHelpCommand(helpCommand())
	root.InitDefaultCompletionCmd()
	for _, group := range root.Commands() {
		if group.HasSubCommands() {
			needsVerb(group)
		}
	}
	needsVerb(root)
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownVerb(cmd, args[0])
		}
		return nil
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	setHelp(root)
	root.SetUsageTemplate(usage.Replace(root.UsageTemplate()))
	return root
}

// needsVerb makes cmd, which is no verb but a group of verbs, fail if it is run without one of them.
func needsVerb(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownVerb(cmd, args[0])
		}
		return fmt.Errorf("missing VERB, one of: %s", strings.Join(verbs(cmd), ", "))
	}
	cmd.RunE = func(*cobra.Command, []string) error { return nil } // not reached: Args always fails
}

// verbs returns the names of cmd's verbs.
func verbs(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			names = append(names, c.Name())
		}
	}
	return names
}

// otherNames say what verbs of other programs are called here.
var otherNames = map[string]string{
	"version":  "tensormap --version says the version",
	"quantize": "tensormap convert IN OUT --dtype TYPE quantizes",
	"show":     "tensormap inspect FILE shows what a model holds",
	"info":     "tensormap inspect FILE shows what a model holds",
	"ls":       "tensormap inspect FILE lists tensors, and tensormap cache ls the files that addresses have left",
	"list":     "tensormap inspect FILE lists tensors, and tensormap cache ls the files that addresses have left",
	"download": "tensormap pull ADDRESS downloads a model to this machine",
}

// unknownVerb returns the error for a verb that cmd does not have. It names what may be meant.
func unknownVerb(cmd *cobra.Command, name string) error {
	if other, ok := otherNames[name]; ok && !cmd.HasParent() {
		return fmt.Errorf("unknown verb %q; %s", name, other)
	}
	if !cmd.HasParent() && isRepository(name) {
		return fmt.Errorf("unknown verb %q; tensormap inspect hf://%s shows a model of the Hugging Face Hub", name, name)
	}
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return fmt.Errorf("unknown verb %q; did you mean %s?", name, strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown verb %q, not one of: %s", name, strings.Join(verbs(cmd), ", "))
}

// flagError returns the error for flags that cannot be parsed. It is about the verb if that is unknown, as are all
// its flags then. Else it says what a number has to be, or names flags that may be meant.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); !cmd.HasParent() && len(args) > 0 {
		return unknownVerb(cmd, args[0])
	}
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		return errors.New(strings.Replace(err.Error(), number.Error(), numberHint(number), 1))
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		return fmt.Errorf("%w%s", err, nearest.Hint(func(yield func(string) bool) {
			more := true
			cmd.Flags().VisitAll(func(f *pflag.Flag) { more = more && (f.Hidden || yield("--"+f.Name)) })
		}, "--"+unknown.GetSpecifiedName()))
	}
	return err
}

// numberHint returns what the value of a flag has to be, given err, the error of parsing it as a number or bool.
func numberHint(err *strconv.NumError) string {
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "the number is too large"
	case err.Func == "ParseBool":
		return "must be true or false"
	case err.Func == "ParseUint":
		return "must be a whole number, not negative"
	}
	return "must be a whole number"
}

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

// verbPath returns the name of a verb after the name of its group, as "cache ls", and the program's for the root.
func verbPath(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// helpCommand returns the verb help.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "help [VERB]",
		Short:                 "Help about a verb",
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError{unknownVerb(about, rest[0])}
			}
			about.InitDefaultHelpFlag() // the flags are declared only when a verb runs
			about.InitDefaultVersionFlag()
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return verbs(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// verb returns the command of a verb, which calls run with its arguments. There must be one argument for each of names.
func verb(use, short string, run func(ctx context.Context, s terminal.Streams, args []string) error, names ...string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  arguments(len(names), names...),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := terminal.Streams{Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
			return run(cmd.Context(), s, args)
		},
		DisableFlagsInUseLine: true,
	}
}

// arguments returns a check that there is an argument for each of names, and that there are no more than limit.
func arguments(limit int, names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("missing %s", strings.Join(names[len(args):], " and "))
		case len(args) > limit:
			return fmt.Errorf("unexpected argument %q", args[limit])
		}
		return nil
	}
}

// choice is a flag that takes one of the words in allowed.
type choice struct {
	value   string
	allowed []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.allowed, "|") }

// Set takes the word s, in upper or lower case. It fails if s is not allowed.
func (c *choice) Set(s string) error {
	s = strings.ToLower(s)
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.allowed, ", "))
	}
	c.value = s
	return nil
}

// addTo declares the flag, with completions.
func (c *choice) addTo(cmd *cobra.Command, name, usage string) {
	cmd.Flags().Var(c, name, usage)
	complete(cmd, name, cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// completeFile makes the shell complete a flag with files that end in suffix.
func completeFile(cmd *cobra.Command, flag, suffix string) {
	complete(cmd, flag, cobra.FixedCompletions([]string{suffix}, cobra.ShellCompDirectiveFilterFileExt))
}

// complete declares how the shell completes a flag. It panics if cmd has no such flag.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// version describes the build: module version, commit, Go, platform.
func version() string {
	unknown := &debug.BuildInfo{GoVersion: runtime.Version(), Main: debug.Module{Version: "(unknown)"}}
	info, _ := debug.ReadBuildInfo()
	return buildText(cmp.Or(info, unknown))
}

// buildText returns what version has of a build.
func buildText(info *debug.BuildInfo) string {
	texts := []string{cmp.Or(info.Main.Version, "(devel)")}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			texts = append(texts, "commit "+s.Value)
		}
	}
	texts = append(texts, info.GoVersion, runtime.GOOS+"/"+runtime.GOARCH)
	return strings.Join(texts, " ")
}

// jobs is the flag --jobs: a number of threads; 0 means as many as there are cores.
type jobs uint

// maxJobs is more than any machine can use.
const maxJobs = 1024

// set sets j to the number in s, at most maxJobs. It fails if s is not a whole number.
func (j *jobs) set(s string) error {
	n, err := strconv.ParseUint(s, 10, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		return err // flagError words it
	}
	*j = jobs(min(n, maxJobs)) // of a number that is out of range, n is the largest uint64
	return nil
}

// addTo declares the flag.
func (j *jobs) addTo(cmd *cobra.Command) { j.addAs(cmd, "work with `N` threads (default: all cores)") }

// addAs declares the flag with another usage.
func (j *jobs) addAs(cmd *cobra.Command, usage string) {
	cmd.Flags().FuncP("jobs", "j", usage, j.set)
	complete(cmd, "jobs", cobra.NoFileCompletions)
}

// count returns the number of threads: the number of the flag, or one a core.
func (j jobs) count() int { return cmp.Or(int(j), runtime.GOMAXPROCS(0)) }

// limit sets GOMAXPROCS, the number of threads of the whole process, to j. restore sets it back. If j is 0, neither does anything.
func (j jobs) limit() (restore func()) {
	if j == 0 {
		return func() {}
	}
	before := runtime.GOMAXPROCS(int(j))
	return func() { runtime.GOMAXPROCS(before) }
}
