package cli

import (
	"github.com/spf13/cobra"
)

// A group is the set of commands for one kind of resource.
type group struct {
	name, short   string
	operations    []operation
	extraCommands []func(*target) *cobra.Command // commands that are not a single operation
}

// groups returns the groups of commands for the management API.
func groups() []group {
	return []group{tenants(), keys(), users(), groupMappings(), consoleCommands(), accounts(), entries(), moves(), prospects(), persons(), erasures(), retention(), summaries(), brands(),
		pages(), audiences(), versions(), previews(), webhooks(), events(), receivers(), refusedRequests(), personalReads(), audit(), servers()}
}

// newGroup returns the command of a group. Its target flags apply to all of its commands.
func newGroup(g group) *cobra.Command {
	cmd := &cobra.Command{Use: g.name, Short: g.short, Long: g.short + "."}
	t := targetFlags(cmd.PersistentFlags())
	markExclusiveFlags(cmd)
	for i := range g.operations {
		if g.operations[i].items == "" {
			g.operations[i].items = g.name
		}
		cmd.AddCommand(g.operations[i].command(t))
	}
	for _, other := range g.extraCommands {
		cmd.AddCommand(other(t))
	}
	return cmd
}
