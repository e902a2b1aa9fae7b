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
			steps := explain(&e, text, text, 0)
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
	steps := strings.Join(explain(&e, "ab--cd.example", "legacy form", 0), "\n")
	for _, part := range []string{`"https://ab--cd.example"`, `"ab--cd.example"`, `"legacy form"`, "account_1"} {
		if !strings.Contains(steps, part) {
			t.Errorf("the explanation does not contain %s:\n%s", part, steps)
		}
	}
}

func TestExplanationSaysWhetherTheAccountExisted(t *testing.T) {
	for made, want := range map[atrium.Time]string{
		0: "If there was none, the entry created it.", 6: "If there was none, the entry created it.",
		5: "which was created together with the entry.", 4: "which already existed.",
	} {
		e := atrium.TimelineEntry{Origin: atrium.Origin{Rule: atrium.RuleDomain}, Entry: atrium.Entry{CreatedAt: 5, AccountID: "account_1"}}
		if steps := strings.Join(explain(&e, "a.example", "", made), "\n"); !strings.HasSuffix(steps, want) {
			t.Errorf("an account of %d for an entry of 5: %s", made, steps)
		}
	}
}

func TestExplanationOfAReceivedEntryNamesTheReceiver(t *testing.T) {
	const receiver = "receiver_01kjpx722sf2x8m1c3v5b7n9qa"
	e := atrium.TimelineEntry{Origin: atrium.Origin{Rule: atrium.RuleUnattributed, SubmittedBy: receiver}}
	if steps := strings.Join(explain(&e, "", "", 0), "\n"); !strings.HasPrefix(steps, receiver+" made the entry") {
		t.Error(steps)
	}
	e.SubmittedBy = "key_01kjpx722sf2x8m1c3v5b7n9qa"
	if steps := strings.Join(explain(&e, "", "", 0), "\n"); strings.Contains(steps, "mapping") {
		t.Error(steps)
	}
}

func TestExplanationOfADeletedEntrySaysWhatIsLeft(t *testing.T) {
	until := atrium.Time(1_780_000_000_000_000)
	for name, c := range map[string]struct {
		tombstone atrium.Tombstone
		steps     int
		has       string
	}{
		"erased, without a key":    {atrium.Tombstone{}, 2, "The entry was deleted."},
		"erased":                   {atrium.Tombstone{KeyHMAC: []byte{1}}, 3, "If the request is sent again, no entry is stored"},
		"deleted by a rule":        {atrium.Tombstone{ExpiresAt: &until}, 3, "A retention rule deleted it. Its tombstone may be deleted after " + until.String()},
		"with texts of the sender": {atrium.Tombstone{Source: "\x1b[31m", Type: strings.Repeat("é", 1<<19)}, 2, `"\x1b[31m"`},
	} {
		steps := explainTombstone(&c.tombstone)
		text := strings.Join(steps, "\n")
		if len(steps) != c.steps || !strings.Contains(text, c.has) || len(text) > 4000 {
			t.Errorf("%s: %d sentences, %d bytes: %.500s", name, len(steps), len(text), text)
		}
	}
}
