package manage

import (
	"strings"
	"testing"
	"unicode"

	"atrium"
)

func TestExplanationIsShortAndPrintableWhateverTheSenderClaims(t *testing.T) {
	for _, text := range []string{strings.Repeat("é\n", 1<<19), "\x1b[31m\u202e\u2028", strings.Repeat("\xff", 1000), `"`} {
		for rule := atrium.RuleNotRecorded; rule <= atrium.RuleUnattributed+1; rule++ {
			e := atrium.TimelineEntry{Origin: atrium.Origin{Rule: rule}, Entry: atrium.Entry{Submission: atrium.Submission{Claim: atrium.Claim{Domain: text, Name: text}}}}
			steps := explain(&e, text, text)
			if len(steps) == 0 {
				t.Errorf("rule %d has no explanation", rule)
			}
			for _, step := range steps {
				if len(step) > 4000 || strings.ContainsFunc(step, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("rule %d: a step has %d bytes: %.200q", rule, len(step), step)
				}
			}
		}
	}
}

func TestExplanationNamesBothFormsOfADomain(t *testing.T) {
	e := atrium.TimelineEntry{Origin: atrium.Origin{Rule: atrium.RuleDomain}}
	e.AccountID, e.Claim.Domain = "account_1", "https://ab--cd.example"
	steps := strings.Join(explain(&e, "ab--cd.example", "legacy form"), "\n")
	for _, part := range []string{`"https://ab--cd.example"`, `"ab--cd.example"`, `"legacy form"`, "account_1"} {
		if !strings.Contains(steps, part) {
			t.Errorf("the explanation does not contain %s:\n%s", part, steps)
		}
	}
}
