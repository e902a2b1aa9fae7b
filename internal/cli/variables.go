package cli

import (
	"errors"
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

// checkVariables warns of misspelled variables, and returns the error of misspelledTarget. Servers do both in the
// format of their log, config and doctor show what they find.
func checkVariables(cmd *cobra.Command) error {
	switch {
	case cmd.Flags().Lookup("database") == nil, slices.Contains([]string{"serve", "demo", "doctor"}, cmd.Name()):
		return nil
	case cmd.Name() != "config":
		if err := misspelledTarget(cmd); err != nil {
			return err
		}
	}
	warn(cmd.ErrOrStderr(), misspelledVariables()...)
	return nil
}

// misspelledTarget returns an error if the command would work on a different database, server or tenant than
// a misspelled variable names: a backup of the wrong database looks like a good one.
func misspelledTarget(cmd *cobra.Command) error {
	var faults []error
	for _, m := range config.Misspellings(os.Environ(), otherVariables...) {
		name := strings.TrimSuffix(m.Known, "_FILE")
		flags, selects := selecting[name]
		if selects && cmd.Flags().Lookup(flags[0]) != nil && !slices.ContainsFunc(flags, cmd.Flags().Changed) &&
			os.Getenv(name) == "" && os.Getenv(name+"_FILE") == "" {
			faults = append(faults, usageError{fmt.Errorf("%s Rename or unset %s, or pass --%s", m, m.Name, flags[0])})
		}
	}
	return errors.Join(faults...)
}
