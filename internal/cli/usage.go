package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxTypos is the maximum edit distance of a suggestion.
const maxTypos = 2

// execute runs a command line and returns the command that it selected.
func execute(ctx context.Context, root *cobra.Command, args []string) (*cobra.Command, error) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	cmd, rest, err := root.Find(args)
	if err == nil && cmd.Parent() == root && cmd.Name() == "help" {
		if cmd, rest, err = root.Find(rest); err != nil {
			return cmd, err
		}
	}
	if err == nil && !cmd.Runnable() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return cmd, unknownCommand(cmd, rest[0])
	}
	cmd, err = root.ExecuteContextC(ctx)
	return cmd, flagGroupError(cmd, err)
}

// Errors of cobra for required flags and flag groups.
var (
	required    = regexp.MustCompile(`^required flag\(s\) (.+) not set$`)
	noneOfGroup = regexp.MustCompile(`^at least one of the flags in the group \[(.+)\] is required$`)
	partOfGroup = regexp.MustCompile(`^if any flags in the group \[.+\] are set they must all be set; missing \[(.+)\]$`)
	allOfGroup  = regexp.MustCompile(`^if any flags in the group \[.+\] are set none of the others can be; \[(.+)\] were all set$`)
)

// hintAnnotation is the annotation of flags with how to find a value, for the error if it is missing.
const hintAnnotation = "atrium_hint"

// flagGroupError rewords errors of cobra for required flags and flag groups.
func flagGroupError(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	flags := func(names string) []string { return strings.Fields("--" + strings.ReplaceAll(names, " ", " --")) }
	if m := required.FindStringSubmatch(err.Error()); m != nil {
		missing := flags(strings.NewReplacer(`"`, "", ",", "").Replace(m[1]))
		texts := []string{"pass " + strings.Join(missing, " and ")}
		for _, name := range missing {
			if f := cmd.Flags().Lookup(strings.TrimPrefix(name, "--")); f != nil && len(f.Annotations[hintAnnotation]) > 0 {
				texts = append(texts, f.Annotations[hintAnnotation][0])
			}
		}
		return errors.New(strings.Join(texts, ": "))
	}
	if m := noneOfGroup.FindStringSubmatch(err.Error()); m != nil {
		return errors.New("pass " + strings.Join(flags(m[1]), " or "))
	}
	if m := partOfGroup.FindStringSubmatch(err.Error()); m != nil {
		return errors.New("pass " + strings.Join(flags(m[1]), " and ") + " too")
	}
	if m := allOfGroup.FindStringSubmatch(err.Error()); m != nil {
		return errors.New(strings.Join(flags(m[1]), " and ") + " cannot be used together")
	}
	return err
}

// checkArgs returns an error that names a missing or unexpected argument of an operation.
func (o *operation) checkArgs(cmd *cobra.Command, args []string) error {
	least := len(o.pathArgs())
	most := least
	if o.trailingFlag() != "" {
		most++
	}
	switch {
	case len(args) < least:
		return errors.New("missing argument " + strings.ToUpper(o.pathArgs()[len(args)]))
	case len(args) > most && cmd.Flags().Lookup("search") != nil:
		return fmt.Errorf("unexpected argument %q: to search, pass --search %s", args[most], shellQuote(args[most]))
	case len(args) > most:
		return fmt.Errorf("unexpected argument %q", args[most])
	}
	return nil
}

// plainWord matches words that a shell does not change.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=-]+$`)

// shellQuote quotes a word for a shell if that is necessary.
func shellQuote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// unknownCommand returns the error for an unknown command of a group. Cobra returns an error for
// the root command only; for other groups it prints help.
func unknownCommand(group *cobra.Command, name string) error {
	group.SuggestionsMinimumDistance = maxTypos
	return fmt.Errorf("unknown command %q for %q%s", name, group.CommandPath(), didYouMean(group.SuggestionsFor(name)))
}

// flagError adds suggestions to the error for an unknown flag.
func flagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	// Cobra suggests names for commands only.
	flags := &cobra.Command{SuggestionsMinimumDistance: maxTypos}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	names := flags.SuggestionsFor(unknown.GetSpecifiedName())
	for i := range names {
		names[i] = "--" + names[i]
	}
	return fmt.Errorf("%w%s", err, didYouMean(names))
}

// didYouMean formats suggestions like cobra does.
func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "\n\nDid you mean this?\n\t" + strings.Join(names, "\n\t") + "\n"
}
