package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"atrium/internal/config"
)

// otherVariables are the environment variables of commands that are not settings.
var otherVariables = []string{envServer, envKey, envProfile, envTenant, envCopyTo}

// selecting has the variables that select what a command works on, with the flags that override them.
var selecting = map[string][]string{
	config.Variable("database"): {"database", "from", "server", "profile"},
	config.Variable("config"):   {"config", "database", "from", "server", "profile"},
	envServer:                   {"server", "database", "from", "profile"},
	envProfile:                  {"profile", "database", "from", "server"},
	envTenant:                   {"tenant", "operator"},
}

// misspelledVariables returns a warning for each misspelled variable of the environment.
func misspelledVariables() (all []string) {
	for _, m := range config.Misspellings(os.Environ(), otherVariables...) {
		all = append(all, m.String())
	}
	return all
}

// checkVariables warns of misspelled variables. It returns an error if the command would work on a
// different database, server or tenant than the variable names: a backup of the wrong database looks like
// a good one.
func checkVariables(cmd *cobra.Command) error {
	if cmd.Flags().Lookup("database") == nil || cmd.Name() == "doctor" { // doctor reports them itself
		return nil
	}
	for _, m := range config.Misspellings(os.Environ(), otherVariables...) {
		name := strings.TrimSuffix(m.Known, "_FILE")
		changed := func(flag string) bool { return cmd.Flags().Changed(flag) }
		flags, selects := selecting[name]
		if !selects || cmd.Name() == "config" || cmd.Flags().Lookup(flags[0]) == nil || slices.ContainsFunc(flags, changed) ||
			os.Getenv(name) != "" || os.Getenv(name+"_FILE") != "" {
			if cmd.Name() != "serve" && cmd.Name() != "demo" { // which log it
				warn(cmd.ErrOrStderr(), m.String())
			}
			continue
		}
		return fmt.Errorf("%s Rename or unset %s, or pass --%s", m, m.Name, flags[0])
	}
	return nil
}
