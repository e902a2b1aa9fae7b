package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// ask has somebody at a terminal agree to what cannot be undone, unless --yes does.
func (o *operation) ask(cmd *cobra.Command, args []string) error {
	if yes, _ := cmd.Flags().GetBool("yes"); o.confirm == "" || yes {
		return nil
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return usageError{errors.New("there is no terminal to ask at: --yes says that this is meant")}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s %s? [y/N] ", o.confirm, args[0])
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if said := strings.ToLower(strings.TrimSpace(line)); said != "y" && said != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}
