package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// helpWidth is the width of lines in the help topic.
const helpWidth = 100

// newTargetTopic returns the help topic on the target flags.
func newTargetTopic() *cobra.Command {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	targetFlags(flags)
	topic := &cobra.Command{Use: "target", Short: "Flags that select the database, the server and the tenant",
		Long: targetHelp, DisableFlagsInUseLine: true}
	topic.Flags().AddFlagSet(flags) // for the manual page
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nFlags:\n%s", targetHelp, flags.FlagUsagesWrapped(helpWidth))
	})
	return topic
}

// shortenHelp replaces the target flags in the help of commands by a reference to their topic.
func shortenHelp(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		hidden := false
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if _, ok := f.Annotations[ofTarget]; ok {
				f.Hidden, hidden = true, true
			}
		})
		help(cmd, args)
		if hidden {
			fmt.Fprintln(cmd.OutOrStdout(), "\nGlobal flags: --tenant, --database, --server, --profile, --key and --config. "+
				"See 'atrium help target'.")
		}
	})
}
