package docs_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A block is a fenced code block. One in the language sh that calls curl or atrium is run.
type block struct {
	line       int // of its fence
	language   string
	text       string
	response   *block // the next block, if only blank lines separate it
	isResponse bool
}

var (
	callLine = regexp.MustCompile(`(?m)^\s*(\$ )?(curl|(bin/|\./)?atrium) `)
	curlWord = regexp.MustCompile(`(?m)(^|[\s;&|(])curl `)
)

func (b block) runs() bool {
	return b.language == "sh" && (callLine.MatchString(b.text) || curlWord.MatchString(b.text))
}

// readBlocks returns the fenced blocks of a page.
func readBlocks(text string) ([]block, error) {
	var blocks []block
	var open *block
	adjacent := false // only blank lines since the last block
	for n, line := range strings.Split(text, "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimLeft(line, " "), "```")
		switch {
		case isFence && open == nil:
			open = &block{line: n + 1, language: fence}
		case isFence:
			open.isResponse = adjacent && blocks[len(blocks)-1].runs() && responseLanguages[open.language]
			blocks = append(blocks, *open)
			open, adjacent = nil, true
		case open != nil:
			open.text += line + "\n"
		case strings.TrimSpace(line) != "":
			adjacent = false
		}
	}
	if open != nil {
		return nil, fmt.Errorf("the block of line %d does not end", open.line)
	}
	for i := range blocks {
		b := &blocks[i]
		switch {
		case b.isResponse:
			blocks[i-1].response = b
		case b.language == "http":
			return nil, fmt.Errorf("line %d: a response without a request", b.line)
		// A configuration for Terraform assigns to the name atrium.
		case b.language != "sh" && b.language != "hcl" && callLine.MatchString(b.text):
			return nil, fmt.Errorf("line %d: a block that calls the service has the language sh, so that it is tested", b.line)
		}
	}
	return blocks, nil
}

var responseLanguages = map[string]bool{"json": true, "http": true, "text": true}

// A command is one line of a shell, as far as the pages need one.
type command struct {
	line   int // of the page
	words  [][]part
	stdin  string // of a here-document
	stdout string // of the file after >; "" for none
}

// A part of a word is text, or the name of a variable.
type part struct {
	text     string
	variable bool
}

// A shell reads commands: words with quotes and variables, comments, lines that
// go on after a backslash, > FILE and here-documents whose word is quoted.
// Everything else that means something to a shell is refused.
type shell struct {
	text     string
	at       int
	line     int
	commands []command

	now       command
	word      []part
	inWord    bool
	toFile    bool   // the next word is the file after >
	delimiter string // of the here-document that begins on the next line
}

var variable = regexp.MustCompile(`^\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))`)

// readCommands reads the commands of a block that begins on a line of its page.
func readCommands(text string, line int) ([]command, error) {
	s := &shell{text: text, line: line}
	s.now.line = line
	for s.at < len(s.text) {
		if err := s.step(); err != nil {
			return nil, fmt.Errorf("line %d: %w", s.line, err)
		}
	}
	return s.commands, nil
}

func (s *shell) step() error {
	c := s.text[s.at]
	switch {
	case c == ' ' || c == '\t':
		s.at++
		return s.endWord()
	case c == '\n':
		s.at++
		s.line++
		return s.endCommand()
	case c == '#' && !s.inWord:
		s.at += strings.IndexByte(s.text[s.at:], '\n')
		return nil
	case c == '\'':
		end := strings.IndexByte(s.text[s.at+1:], '\'')
		if end < 0 {
			return errors.New("a ' does not end")
		}
		s.add(s.text[s.at+1 : s.at+1+end])
		s.at += end + 2
		return nil
	case c == '"':
		s.at++
		return s.doubleQuoted()
	case c == '$':
		return s.variable()
	case c == '\\' && strings.HasPrefix(s.text[s.at:], "\\\n"):
		s.at += 2
		s.line++
		return s.endWord()
	case strings.HasPrefix(s.text[s.at:], "<<'"):
		return s.hereDocument()
	case c == '>' && !s.inWord && !s.toFile:
		s.toFile = true
		s.at++
		return nil
	case strings.IndexByte("\\|&;()<>*?[]{}~!`", c) >= 0:
		return fmt.Errorf("%q means more to a shell than this test understands: quote it", c)
	}
	s.add(s.text[s.at : s.at+1])
	s.at++
	return nil
}

func (s *shell) add(text string) {
	s.inWord = true
	if n := len(s.word); n > 0 && !s.word[n-1].variable {
		s.word[n-1].text += text
		return
	}
	s.word = append(s.word, part{text: text})
}

func (s *shell) doubleQuoted() error {
	s.inWord = true
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case c == '"':
			s.at++
			return nil
		case c == '$':
			if err := s.variable(); err != nil {
				return err
			}
			continue
		case c == '`':
			return errors.New("a command in a command")
		case c == '\\' && s.at+1 < len(s.text) && strings.IndexByte("$`\"\\", s.text[s.at+1]) >= 0:
			s.at++
		case c == '\n':
			s.line++
		}
		s.add(s.text[s.at : s.at+1])
		s.at++
	}
	return errors.New(`a " does not end`)
}

func (s *shell) variable() error {
	m := variable.FindStringSubmatch(s.text[s.at:])
	if m == nil {
		return errors.New("a $ that is no variable")
	}
	s.inWord = true
	s.word = append(s.word, part{m[1] + m[2], true})
	s.at += len(m[0])
	return nil
}

func (s *shell) hereDocument() error {
	if err := s.endWord(); err != nil {
		return err
	}
	rest := s.text[s.at+len("<<'"):]
	word, _, closed := strings.Cut(rest, "'")
	if !closed || word == "" || s.delimiter != "" {
		return errors.New("a here-document begins with <<'WORD', and there is one at most")
	}
	s.delimiter = word
	s.at += len("<<'") + len(word) + len("'")
	return nil
}

func (s *shell) endWord() error {
	if !s.inWord {
		return nil
	}
	word := s.word
	s.word, s.inWord = nil, false
	if !s.toFile {
		s.now.words = append(s.now.words, word)
		return nil
	}
	s.toFile = false
	if len(word) != 1 || word[0].variable || s.now.stdout != "" {
		return errors.New("one > and a file that is written out")
	}
	s.now.stdout = word[0].text
	return nil
}

func (s *shell) endCommand() error {
	if err := s.endWord(); err != nil {
		return err
	}
	if s.toFile {
		return errors.New("a > without a file")
	}
	if s.delimiter != "" {
		body, rest, found := strings.Cut("\n"+s.text[s.at:], "\n"+s.delimiter+"\n")
		if !found {
			return fmt.Errorf("the here-document does not end with %s", s.delimiter)
		}
		s.now.stdin = strings.TrimPrefix(body, "\n") + "\n"
		s.line += strings.Count(s.now.stdin, "\n") + 1
		s.at = len(s.text) - len(rest)
		s.delimiter = ""
	}
	if len(s.now.words) > 0 {
		s.commands = append(s.commands, s.now)
	}
	s.now = command{line: s.line}
	return nil
}

// A curl is an invocation of curl.
type curl struct {
	method  string
	url     string
	header  []string
	body    []byte // nil for none
	include bool   // -i
	output  string // -o
	write   string // -w
}

// readCurl parses the arguments of curl. It supports those that the pages use.
func readCurl(args []string, stdin string) (*curl, error) {
	c := &curl{}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if !strings.HasPrefix(arg, "-") {
			if c.url != "" {
				return nil, errors.New("more than one URL")
			}
			c.url = arg
			continue
		}
		flags := strings.Split(strings.TrimPrefix(arg, "-"), "")
		if arg == "--data" {
			flags = []string{"d"}
		}
		for n, flag := range flags {
			text := ""
			if slices.Contains([]string{"X", "H", "d", "o", "w"}, flag) {
				if n < len(flags)-1 || len(args) == 0 {
					return nil, fmt.Errorf("no value follows the %s of %s", flag, arg)
				}
				text = args[0]
				args = args[1:]
			}
			switch flag {
			case "s": // there is no progress to hide
			case "i":
				c.include = true
			case "X":
				c.method = text
			case "H":
				c.header = append(c.header, text)
			case "d":
				if text == "@-" {
					text = strings.NewReplacer("\r", "", "\n", "").Replace(stdin) // as curl does
				} else if strings.HasPrefix(text, "@") {
					return nil, errors.New("data from a file")
				}
				c.body = append(c.body, text...)
			case "o":
				c.output = text
			case "w":
				c.write = text
			default:
				return nil, fmt.Errorf("%s is an option of curl that this test does not know", arg)
			}
		}
	}
	if c.method == "" {
		c.method = "GET"
		if c.body != nil {
			c.method = "POST"
		}
	}
	if strings.ContainsAny(c.url, "[]{} ") {
		return nil, errors.New("curl would take the brackets of the URL for a pattern")
	}
	return c, nil
}

// written returns the output of -w.
func (c *curl) written(status int) (string, error) {
	text := strings.NewReplacer(`\n`, "\n", "%{http_code}", strconv.Itoa(status)).Replace(c.write)
	if strings.ContainsAny(text, `\%`) {
		return "", fmt.Errorf("-w %q is not supported by this test", c.write)
	}
	return text, nil
}
