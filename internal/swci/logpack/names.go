package logpack

import (
	"regexp"
	"slices"
	"strings"
)

// secretName is a part of names whose values are secrets, in text.
const secretName = `(?:passw(?:or)?d|passphrase|secret|token|credential|(?:api|access|account|encryption|private|signing|shared)[_.-]?key|authorization|registry[_-]?auth|cookie|invitation|[_.-]pass\b|[_.-]pwd\b)`

// secretWords are names of secrets by themselves, which are too short to be looked for in other words.
var secretWords = []string{"auth", "auths", "pass", "pwd", "psk"}

var secretPart = regexp.MustCompile(`(?i)` + secretName)

// isSecret reports whether what stands under a name is a secret.
func isSecret(name string) bool {
	return secretPart.MatchString(name) || slices.Contains(secretWords, strings.ToLower(name))
}

// hints are in every line that has a secret, in lower case.
var hints = []string{
	"pass", "secret", "token", "credential", "key", "auth", "cookie", "invitation", "pwd", "psk", "env", "bearer", "basic", "://",
	"gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "hf_", "akia", "xox", "eyj",
}

// hinted reports whether a line may have a secret. It is far cheaper than to look for one, and most lines of logs have none.
func hinted(line string) bool {
	lower := strings.ToLower(line)
	return slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(lower, h) })
}

// isSecretOption reports whether a word is an option that takes a secret as the next word.
func isSecretOption(word string) bool {
	return strings.HasPrefix(word, "-") && !strings.ContainsAny(word, "= \t") && isSecret(strings.TrimLeft(word, "-"))
}

// isEnvironment reports whether a name is that of a list of variables.
func isEnvironment(name string) bool {
	return slices.Contains([]string{"env", "envs", "envvars", "environment", "slenvvars", "usrenvvars"}, strings.ToLower(name))
}
