package cli

import (
	"github.com/spf13/cobra"
)

// A group is the commands for one kind of thing.
type group struct {
	name, short string
	operations  []operation
	others      []func(*target) *cobra.Command // those that are more than one operation
}

// groups are the commands that are operations of the management API.
func groups() []group {
	return []group{tenants(), keys(), accounts(), entries(), moves(), prospects(), brands(), pages(), audiences(), versions(), audit()}
}

// newGroup returns the command of a group, with the flags for the target of all its
// commands.
func newGroup(g group) *cobra.Command {
	cmd := &cobra.Command{Use: g.name, Short: g.short, Long: g.short + ".\n\n" + targetHelp}
	t := targetFlags(cmd.PersistentFlags())
	excludeFlags(cmd)
	for i := range g.operations {
		cmd.AddCommand(g.operations[i].command(t))
	}
	for _, other := range g.others {
		cmd.AddCommand(other(t))
	}
	return cmd
}
