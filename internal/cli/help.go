package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"atrium/internal/config"
)

// targetHelp is the help topic on the target flags.
const targetHelp = `By default, a command works directly on the database, with all permissions. With
--server or a profile, it calls a running server, with the permissions of an API key.

On the database, a command works on the tenant of --tenant or ` + envTenant + `, or else
on the only tenant.

A key passed with --key is visible in the process list. Set ` + envKey + `, set
` + envKey + `_FILE to the path of a file that contains the key, or use a profile: a
JSON file with mode 0600 that contains {"server":…,"key":…,"tenant":…}.`

// ofTarget is the annotation of flags that select the target. Help lists them in a topic of their own.
const ofTarget = "atrium_target"

// ofSettings is the annotation of flags that are settings of the server. Help shortens them, and has a topic with their
// whole texts.
const ofSettings = "atrium_setting"

// helpWidth is the width of lines in lists of flags.
const helpWidth = 100

// newTargetTopic returns the help topic on the target flags.
func newTargetTopic() *cobra.Command {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	targetFlags(flags)
	return newTopic("target", "Flags that select the database, the server and the tenant", targetHelp, flags)
}

// settingsHelp is the help topic on settings.
const settingsHelp = `The server reads each setting from a flag, an environment variable, the YAML file of
--config, or its default, in this order. 'atrium config' prints the settings in force.

For secrets, append _FILE to a variable to read its value from a one-line file. Sizes are
bytes, or whole KiB, MiB or GiB, such as 64KiB. Durations look like 90s, 5m, 1h30m or 7d.`

// newSettingsTopic returns the help topic on settings.
func newSettingsTopic() *cobra.Command {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	settings := config.Default()
	config.Bind(flags, &settings)
	return newTopic("settings", "Settings of the server, as flags, variables or lines of a file", settingsHelp, flags)
}

// newTopic returns a help topic that lists flags with their whole texts.
func newTopic(name, short, long string, flags *pflag.FlagSet) *cobra.Command {
	flags.SortFlags = false
	topic := &cobra.Command{Use: name, Short: short, Long: long, DisableFlagsInUseLine: true}
	topic.Flags().AddFlagSet(flags) // for the manual page
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nFlags:\n%s", long, flags.FlagUsagesWrapped(helpWidth))
	})
	return topic
}

// shortenHelp replaces the target flags in the help of commands by a reference to their topic, and texts of settings
// by their first sentences.
func shortenHelp(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", helpWidth)))
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		hidden, shortened := false, false
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if _, ok := f.Annotations[ofTarget]; ok {
				f.Hidden, hidden = true, true
			}
			if _, ok := f.Annotations[ofSettings]; ok {
				f.Usage, shortened = firstSentence(f.Usage), true
			}
		})
		help(cmd, args)
		if hidden {
			fmt.Fprintln(cmd.OutOrStdout(), "\nGlobal flags: --tenant, --database, --server, --profile, --key and --config. "+
				"See 'atrium help target'.")
		}
		if shortened {
			fmt.Fprintln(cmd.OutOrStdout(), "\nMost flags are settings, which can also be variables, such as "+config.Variable("addr")+" for --addr, or in the\n"+
				"file of --config. 'atrium help settings' describes them in full.")
		}
	})
}

// firstSentence returns the first sentence of a text without the period, as in other lists of flags.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(text, " (environment: ")
	text, _, _ = strings.Cut(text, ". ")
	return strings.TrimSuffix(text, ".")
}
