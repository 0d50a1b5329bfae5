package rights

import (
	"strings"

	"github.com/swarmd/swarmd/identity/pattern"
)

// Keeps reports whether sentences let somebody change the rights themselves, as the replicated state has it. SNs of different versions must
// come to the same, whatever words their vocabularies have. So this looks at no vocabulary, and it must never change: one sentence has to be,
// byte for byte, "Allow PATTERN, PATTERN … to manage rights" or the same of all-resources, without a condition.
func Keeps(texts []string, who string) bool {
	for _, text := range texts {
		subjects, begins := strings.CutPrefix(text, "Allow ")
		subjects, ofRights := strings.CutSuffix(subjects, " to manage rights")
		ofAll := false
		if !ofRights {
			subjects, ofAll = strings.CutSuffix(subjects, " to manage all-resources")
		}
		if !begins || !ofRights && !ofAll {
			continue
		}
		for subject := range strings.SplitSeq(subjects, ", ") {
			if p, err := pattern.Parse(subject); err == nil && p.Match(who) {
				return true
			}
		}
	}
	return false
}
